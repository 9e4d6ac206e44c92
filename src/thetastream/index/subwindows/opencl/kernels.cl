/* BI-Sort's units on an accelerator (PanJoin, Section IV): mergers, indexer, partitioners, probers.

   A kernel is started as some number of units of the same kind. Each takes one contiguous piece of
   the work, found from its number, and reads and writes memory in streams. The outcome does not
   depend on the number of units. Keys and ids are 64-bit integers; any value is a key. */

/* How many of the first `taken` rows of the merge of a and b come from a; on ties a goes first. */
static long co_rank(long taken, global const long *a, long a_size, global const long *b, long b_size)
{
    long low = max(0L, taken - b_size), high = min(taken, a_size);
    while (low < high) {
        long middle = low + (high - low) / 2;
        if (a[middle] <= b[taken - 1 - middle])
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Two input streams, one output stream, a comparator (Figure 8). Rows lie in lines, one after the
   other; the first line is the keys in ascending order, the others lie beside them. */
kernel void merger(global const long *a, long a_size, global const long *b, long b_size,
                   long lines, global long *merged)
{
    long size = a_size + b_size, unit = get_global_id(0), units = get_global_size(0);
    long at = size * unit / units, stop = size * (unit + 1) / units;
    long i = co_rank(at, a, a_size, b, b_size), j = at - i;
    for (; at < stop; at++) {
        int first = j == b_size || (i < a_size && a[i] <= b[j]);
        global const long *row = first ? a + i : b + j;
        long length = first ? a_size : b_size;
        for (long line = 0; line < lines; line++)
            merged[line * size + at] = row[line * length];
        i += first;
        j += !first;
    }
}

/* The first key of every partition of `width` rows. */
kernel void indexer(global const long *keys, long width, long partitions, global long *index)
{
    long unit = get_global_id(0), units = get_global_size(0);
    long stop = partitions * (unit + 1) / units;
    for (long at = partitions * unit / units; at < stop; at++)
        index[at] = keys[at * width];
}

static int below(long key, long bound, int upper)
{
    return upper ? key <= bound : key < bound;
}

/* The rebounding binary search (Section III-E): the first place of [start, stop) whose key is not
   below the bound, else stop. Steps from `from` on double until they pass it, then halve. A place
   before `from` is found too, by halving alone, so bounds in any order are served. */
static long rebound(global const long *keys, long start, long stop, long from, long bound, int upper)
{
    long low = start, high = from - 1;
    if (from == start || below(keys[from - 1], bound, upper)) {
        low = high = from;
        for (long step = 1; high < stop && below(keys[high], bound, upper); step *= 2) {
            low = high + 1;
            high += step;
        }
        high = min(high, stop);
    }
    while (low < high) {
        long middle = low + (high - low) / 2;
        if (below(keys[middle], bound, upper))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The partition that each bound falls into: of all lower bounds, then of all upper bounds. */
kernel void partitioner(global const long *index, long partitions,
                        global const long *lows, global const long *highs, long boxes,
                        global long *targets)
{
    long unit = get_global_id(0), units = get_global_size(0);
    long stop = 2 * boxes * (unit + 1) / units, from = 0;
    for (long at = 2 * boxes * unit / units; at < stop; at++) {
        int upper = at >= boxes;
        from = rebound(index, 0, partitions, from, upper ? highs[at - boxes] : lows[at], upper);
        targets[at] = max(0L, from - 1);
    }
}

/* Where each bound falls within its partition (Figure 9): the first row that is not below it, so
   the rows of box i are [places[i], places[boxes + i]). While bounds ascend, a prober goes on from
   the row it has reached, as a merge does. */
kernel void prober(global const long *keys, long size, long width,
                   global const long *lows, global const long *highs, long boxes,
                   global const long *targets, global long *places)
{
    long unit = get_global_id(0), units = get_global_size(0);
    long stop = 2 * boxes * (unit + 1) / units, from = 0;
    for (long at = 2 * boxes * unit / units; at < stop; at++) {
        int upper = at >= boxes;
        long first = targets[at] * width, last = min(first + width, size);
        if (from < first || from > last)
            from = first;
        from = rebound(keys, first, last, from, upper ? highs[at - boxes] : lows[at], upper);
        places[at] = from;
    }
}
