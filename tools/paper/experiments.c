/* The catalogue of experiments, in the order of `paperbench list` and `all`. */
#include "paper/paper.h"

const struct pb_experiment *const pb_experiments[] = {
    &pb_lk_table1,   &pb_lk_fig2,       &pb_lk_fig3,   &pb_lk_fig4, &pb_lk_fig5,        &pb_lk_fig6,      &pb_lk_rank,
    &pb_lk_laplaced, &pb_lk_dictionary, &pb_tc_table1, &pb_tc_dims, &pb_tc_loose,       &pb_tc_time,      &pb_tc_fig1,
    &pb_ek_bump,     &pb_ek_chessboard, &pb_ek_step,   &pb_ek_time, &pb_bkb_starvation, &pb_bounds_width, NULL};
