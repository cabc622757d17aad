#!/bin/sh
# One run of all that laplaced is for, against one server of its own: an A/B split with a holdout, recommendations along a
# friendship graph, and what another policy would have earned on the log that is left. Each stage ends with a figure, and
# the tour ends with status 1 when a figure is not better than chance. Nothing but laplacectl, curl, awk and sh is used.
# Decisions have ids of their own and come one after another, and builds end where they begin: every run has the same figures.
#
#   sh tools/tour.sh [FOLDER OF THE PROGRAMS]     (build/release)
#
#   TOUR_DATA=DIR      keep the server's data and the files of the tour in DIR, which must be empty or not be there
#   TOUR_RATES="R G B" how often a visitor of stage 1 clicks at red, green and blue ("0.05 0.2 0.1")
set -eu
bin=${1:-build/release}
rates=${TOUR_RATES:-0.05 0.2 0.1}
seed=7
VISITORS=5000 ROUNDS=1500
SECONDS_AT_MOST=60 # of one command

# Neither the server nor laplacectl is to be led elsewhere by the caller's settings.
for name in $(env | sed -n 's/^\(LAPLACED_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done

if [ -n "${TOUR_DATA:-}" ]; then
    folder=$TOUR_DATA
    mkdir -p "$folder"
    if [ -n "$(ls -A "$folder")" ]; then
        echo "tour: TOUR_DATA: $folder is not empty" >&2
        exit 2
    fi
else
    folder=$(mktemp -d)
fi
server=''
clean_up() {
    status=$?
    trap - EXIT
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    if [ -z "${TOUR_DATA:-}" ]; then
        rm -rf "$folder"
    else
        echo "The data are in $folder. To go on from there: $bin/laplaced --data $folder/data"
    fi
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
    echo "tour: $*" >&2
    exit 1
}
ctl() { timeout "$SECONDS_AT_MOST" "$bin/laplacectl" --server "$url" "$@"; }
# METHOD PATH TENANT [BODY]
call() { curl -sS --fail-with-body --max-time "$SECONDS_AT_MOST" -X "$1" -H "Laplaced-Tenant: $3" "$url$2" ${4:+-d "$4"}; }

# SECTION MEMBER of an answer that laplacectl prints, a member a line.
member() { awk -v s="\"$1\":" -v m="\"$2\":" '$1 == s { here = 1 } here && $1 == m { sub(/,$/, "", $2); print $2; exit }'; }
# Of an answer to /select the arms with what is expected of each: "green 0.199, blue 0.098".
expected() {
    echo "$1" | sed 's/.*"ranking"://' | tr '{' '\n' | awk -F'[:,"]+' '$2 == "arm" && $4 == "mean" {
        printf "%s%s %.3f", (n++ ? ", " : ""), $3, $5 }'
}
# A condition on numbers.
is_true() { awk "BEGIN { exit !($1) }"; }
# NAME VALUE SCALE [LOWER UPPER]: a bar and what it stands for.
bar() {
    awk -v name="$1" -v v="$2" -v scale="$3" -v lo="${4:-}" -v hi="${5:-}" 'BEGIN {
        for (i = 0; i < 40 * v / scale; i++) row = row "#"
        interval = lo == "" ? "" : sprintf("[%.3f, %.3f]", lo, hi)
        printf "   %-26s %.3f  %-15s %s\n", name, v, interval, row }'
}
# Of a tenant's side: "mean lower upper".
side() { ctl --tenant "$1" stats >"$folder/stats.json" && for m in mean_reward lower upper; do member "$2" "$m" <"$folder/stats.json"; done | tr '\n' ' '; }
# The same numbers from every awk: a Lehmer generator.
LEHMER='function r() { x = (x * 16807) % 2147483647; return x / 2147483647 } BEGIN { x = seed }'

: >"$folder/address"
"$bin/laplaced" --data "$folder/data" --listen 127.0.0.1:0 --finish-builds >"$folder/address" 2>"$folder/laplaced.log" </dev/null &
server=$!
url=''
tries=0
while [ -z "$url" ]; do
    url=$(sed -n 's|.*\(http://[0-9.]*:[0-9]*\).*|\1|p' "$folder/address")
    tries=$((tries + 1))
    if [ "$tries" -gt 200 ] || ! kill -0 "$server" 2>/dev/null; then
        tail -n 5 "$folder/laplaced.log" >&2
        fail "the server did not come up"
    fi
    [ -n "$url" ] || sleep 0.1
done
echo "A server of its own listens at $url. It ends with the tour."

cat <<TEXT

1. Three buttons, and one in five visitors held out
   A page has a red, a green and a blue button. laplaced shows each visitor one of them and learns from the clicks. Of the
   visitors 20 % are held out: they get a button by chance, so that there is something to compare with.

TEXT
ctl tenant put shop --set 'routing={"holdout":{"share":0.2,"baseline":{"rule":"uniform"}}}' >/dev/null
echo "   The first visitor, by curl:"
echo "   POST /select  $(call POST /select shop '{"user":"ann","candidates":["red","green","blue"],"decision":"first"}' | sed 's/,"ranking".*/, .../')"
echo "   POST /reward  $(call POST /reward shop '{"decision":"first","reward":0}')"
echo "   $VISITORS more, by laplacectl replay: for each a /select, then a /reward of 1 for a click and of 0 for none."
awk -v seed="$seed" -v n="$VISITORS" -v rates="$rates" "$LEHMER"' BEGIN {
    split(rates, rate, " ")
    for (t = 1; t <= n; t++)
        printf "{\"user\":\"u%d\",\"rewards\":{\"red\":%d,\"green\":%d,\"blue\":%d}}\n", t, r() < rate[1], r() < rate[2], r() < rate[3]
}' >"$folder/visitors.ndjson"
ctl --tenant shop replay "$folder/visitors.ndjson" --ids visit --concurrency 1 --quiet >/dev/null
# shellcheck disable=SC2046 # three numbers
set -- $(side shop policy) $(side shop holdout)
echo
echo "   Clicks a visitor, with 95 % intervals (GET /tenants/shop/stats):"
bar "the policy" "$1" 0.25 "$2" "$3"
bar "held out, by chance" "$4" 0.25 "$5" "$6"
is_true "$2 > $6" || fail "the policy is not better than the holdout beyond chance"

# The kill switch, shown where this server and laplacectl have it.
if "$bin/laplacectl" tenant --help | grep -q 'stop NAME'; then
    echo
    echo "   The kill switch: from 'laplacectl tenant stop shop' on everybody gets the baseline, until 'tenant start shop'."
    ctl tenant stop shop >/dev/null
    call POST /select shop '{"user":"ann","candidates":["red","green","blue"],"dry_run":true}' | grep -q '"route":"stopped"' ||
        fail "the tenant was stopped, and the policy decided"
    ctl tenant start shop >/dev/null
fi

cat <<TEXT

2. Twenty items for 120 people who know each other
   They live in six quarters. People of a quarter are friends and like the same four of 20 items (they take them 6 times of
   10, others once). laplaced is told who is friends with whom, and nothing of quarters. Two tenants meet the same $ROUNDS
   visits: one has the friendships, the other is the same without them.

TEXT
awk -v seed=11 "$LEHMER"' BEGIN {
    for (u = 0; u < 120; u++) {
        home = u - u % 20
        edge(u, home + (u + 1) % 20)
        for (k = 0; k < 2; k++) edge(u, home + int(r() * 20))
    }
    for (k = 0; k < 12; k++) edge(k * 10, (k * 10 + 37) % 120) # few between quarters
}
function edge(a, b, key) {
    key = a < b ? a "," b : b "," a
    if (a != b && !(key in seen)) printf "u%03d,u%03d\n", a < b ? a : b, a < b ? b : a
    seen[key] = 1
}' >"$folder/friends.csv"
awk -v seed=13 -v n="$ROUNDS" -v truth="$folder/chance" "$LEHMER"' BEGIN {
    for (t = 0; t < n; t++) {
        u = int(r() * 120); row = ""
        for (i = 0; i < 20; i++) {
            rate = (i * 7 + int(u / 20) * 3) % 10 < 2 ? 0.6 : 0.1; sum += rate
            row = row (i > 0 ? "," : "") sprintf("\"item%02d\":%d", i, r() < rate)
        }
        printf "{\"user\":\"u%03d\",\"rewards\":{%s}}\n", u, row
    }
    print sum / n / 20 >truth
}' >"$folder/visits.ndjson"
ctl tenant put friends >/dev/null
ctl --tenant friends graph put "$folder/friends.csv" >/dev/null
ctl tenant put strangers >/dev/null
for tenant in friends strangers; do
    ctl --tenant "$tenant" replay "$folder/visits.ndjson" --ids visit --concurrency 1 --quiet >/dev/null
done
items=$(awk 'BEGIN { for (i = 0; i < 20; i++) printf "%s\"item%02d\"", (i > 0 ? "," : ""), i }')
slate=$(call POST /select friends "{\"user\":\"u000\",\"candidates\":[$items],\"top\":3,\"dry_run\":true}")
echo "   Three items for u000, by curl: $(expected "$slate")"
echo
chance=$(cat "$folder/chance")
# shellcheck disable=SC2046
set -- $(side friends policy) $(side strangers policy)
echo "   Items taken a visit, with 95 % intervals:"
bar "with friendships" "$1" 0.6 "$2" "$3"
bar "the same without" "$4" 0.6 "$5" "$6"
bar "by chance (known here)" "$chance" 0.6
is_true "$2 > $6 && $2 > $chance" || fail "friendships do not help beyond chance"

cat <<TEXT

3. What would another policy have earned on the log of the three buttons?
   The log of stage 1 is exported. It says of each decision how likely it was, so other policies can be judged by it
   before they serve anybody. Here we know the truth, and can see whether the estimates are right.

TEXT
ctl export shop "$folder/shop.ndjson" 2>/dev/null
printf 'item_id,probability\ngreen,1\n' >"$folder/green.csv"
ctl evaluate --format ndjson --policy uniform --policy "distribution:$folder/green.csv" --html "$folder/shop.html" \
    "$folder/shop.ndjson" >"$folder/evaluation.txt"
# "estimate lower upper" of SNIPS under a heading
snips() { awk -v name="$1" '$0 == name { here = 1 } here && $1 == "snips" { gsub(/[][,]/, ""); print $2, $3, $4; exit }' "$folder/evaluation.txt"; }
truth_uniform=$(echo "$rates" | awk '{ print ($1 + $2 + $3) / 3 }')
truth_green=$(echo "$rates" | awk '{ print $2 }')
# shellcheck disable=SC2046
set -- $(snips uniform) $(snips distribution:green.csv) $(snips "distribution:green.csv less uniform, paired:")
[ $# = 9 ] || fail "an estimate was refused: $(cat "$folder/evaluation.txt")"
echo "   Clicks a visitor, estimated from the log (laplacectl evaluate, SNIPS, 95 % intervals), and the truth:"
bar "green for everybody" "$4" 0.25 "$5" "$6"
bar "  in truth" "$truth_green" 0.25
bar "uniform" "$1" 0.25 "$2" "$3"
bar "  in truth" "$truth_uniform" 0.25
printf '   green less uniform: %.3f [%.3f, %.3f]\n' "$7" "$8" "$9"
is_true "$8 > 0" || fail "the estimates do not tell green from uniform"
# Half an interval is two standard errors; the truth lies within four of them.
is_true "($1 - $truth_uniform) ^ 2 < ($3 - $2) ^ 2 && ($4 - $truth_green) ^ 2 < ($6 - $5) ^ 2" ||
    fail "an estimate is far from the truth"

ctl tenant put copy >/dev/null
ctl --tenant copy replay "$folder/shop.ndjson" --bulk 1000 --quiet >/dev/null
echo
learned=$(expected "$(call POST /select copy '{"user":"new","candidates":["red","green","blue"],"dry_run":true,"explain":true}')")
echo "   The log also teaches: laplacectl replay has given it to a new tenant, which now expects of a new visitor"
echo "   $learned."
echo "$learned" | tr -d , | tr ' ' '\n' | paste - - | awk -v rates="$rates" 'BEGIN { split(rates, v, " "); want["red"] = v[1]; want["green"] = v[2]; want["blue"] = v[3] }
    { d = $2 - want[$1]; n += d * d < 0.05 * 0.05 } END { exit n != 3 }' || fail "the new tenant has not learned what the log tells"
echo
echo "The tour is done: all three figures are better than chance."
