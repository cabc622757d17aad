/* Written by numpy_rng.py with numpy: do not edit. */
static const uint32_t seeds[] = {0u, 1u, 123u, 4294967295u};
static const uint32_t words_0[] = {2357136044u, 2546248239u, 3791854820u, 341544762u, 3856691381u};
static const double mixed_0[] = {0x1.e271e9e9e5664p+0, 0x1.25934a458835ep-1, 0x1.2000000000000p+3, 0x1.bc52bfed993f7p-1,
                                 0x1.96b1054b7bad4p-2, 0x1.16092ae1ae648p-1, 0x1.97666af48fcaap-2, 0x1.0000000000000p+2,
                                 0x1.79ab2d8aca85fp-1, 0x1.4248bdf0356c2p-1, 0x1.edb6b09ce74dep+0, 0x1.301793a51c7afp-1,
                                 0x1.0000000000000p+0, 0x1.c58e5db147de3p-2, 0x1.3ae9adcbaa8e0p-2};
static const uint32_t words_1[] = {1791095845u, 4282876139u, 2006116153u, 1104314680u, 138279050u};
static const double mixed_1[] = {
    0x1.853066a83ed2cp+0,  0x1.0a26ca91cc7e3p-1,  0x1.c000000000000p+2, 0x1.e5ef07c3bcd03p-4,
    0x1.8849d7663e5fbp-1,  0x1.61cc7dac2db92p+1,  0x1.ffb3d5da6f3f3p-2, 0x0.0p+0,
    -0x1.f0aef5adf3396p-5, 0x1.541d5cd7e4078p-3,  0x1.f7be251784c5ep+0, 0x1.4f757b03f46dap-1,
    0x1.2000000000000p+3,  -0x1.4627a027a201bp-1, 0x1.15088281c6077p-1};
static const uint32_t words_2[] = {2991312382u, 3062119789u, 1058258670u, 1280954235u, 3623448910u};
static const double mixed_2[] = {0x1.d0bd829e28578p-1,
                                 0x1.38c1e8c8d9a09p-1,
                                 0x1.8000000000000p+2,
                                 0x1.c08bfc2a20bc6p-1,
                                 0x1.22589998eff34p-2,
                                 0x1.1675f7378e9b7p+1,
                                 0x1.31cea1c34f07ap-1,
                                 0x1.8000000000000p+2,
                                 0x1.a5f967462d17ep-4,
                                 0x1.16a149b800758p-4,
                                 0x1.5f64e6a64f7b8p-1,
                                 0x1.f511ed42d1d05p-2,
                                 0x0.0p+0,
                                 0x1.082f513c8fb7ap+0,
                                 0x1.6905f7821ca7cp-2};
static const uint32_t words_3[] = {419326371u, 479346978u, 1027084080u, 3860652269u, 1762272365u};
static const double mixed_3[] = {
    0x1.835b8de1be2a8p-1,  0x1.a4356d5d978dbp-2, 0x1.0000000000000p+2, 0x1.8f2165c913290p-2,  0x1.6e92fe65f53bap-1,
    0x1.222e3b2186a67p+1,  0x1.accc681c7d963p-2, 0x1.0000000000000p+0, 0x1.f0c836dc773c3p-1,  0x1.91fdadf5f7246p-2,
    -0x1.bb715cc73ee40p-4, 0x1.2f6ae747de655p-1, 0x1.0000000000000p+0, -0x1.22a1675488f47p+0, 0x1.5750c7a7fca58p-4};
static const uint32_t chosen[] = {8u, 70u, 82u, 28u, 63u, 0u, 5u, 50u, 81u, 4u};
static const uint32_t below[] = {8u, 0u, 1u, 1u, 1u, 0u, 35u, 790429u};
