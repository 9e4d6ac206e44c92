"""Inserting sorted batches into a radix trie.

A batch descends the trie as a whole: a *frame* is a slot and the part of the batch that belongs
there. A branch cuts its part by byte into frames of its children, all built at once; a leaf merges
its part in one pass. So the upper nodes are touched once per batch, not per row, and an empty place
gets its leaf, or its whole subtree, at once.

    part of the batch meets    what happens
    EMPTY                      a leaf, or if there are too many, a branch of EMPTY places
    a leaf                     known keys get longer lists; others are merged into the leaf;
                               too many: the leaf becomes a branch of small leaves; try again
    a branch                   one frame per byte; keys outside its prefix: a branch above it, first

Steps are atomic: when the arena has no room, the loop stops, the caller enlarges the arena, and the
loop resumes with the same frame. ``stack`` holds the frames, ``stack[0]`` their number.
"""

from __future__ import annotations

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import inlined, kernel, vector
from thetastream._jit.intrinsics import prefetch, shift
from thetastream.index.ordered.kernels.trie.arena import (
    FULL_FROM,
    KEYS,
    ROWS,
    RUN_MOST,
    TRIE,
    Trie,
    i64,
    release,
    roomy,
    take,
    u64,
    units_of,
)  # fmt: skip
from thetastream.index.ordered.kernels.trie.build import (
    BITS_FROM,
    add_bytes,
    copy_entries,
    drop_block,
    extend_list,
    make_branch,
    make_leaf,
    run_room,
    split_leaf,
    write_suffix,
)  # fmt: skip
from thetastream.index.ordered.kernels.trie.find import near
from thetastream.index.ordered.kernels.trie.nodes import (
    BITS,
    EMPTY,
    LINEAR,
    NONE,
    ONE,
    RUN,
    Bits,
    below,
    byte_of,
    child_slot,
    count_of,
    form_of,
    head_of,
    level_of,
    log_of,
    prefix_of,
    rank,
    room_of,
    run_values,
    run_words,
    suffix_at,
    top_level,
)

FRAME = 4  # words of a frame: slot, first and last row (half open), level
STACK = 1 + FRAME * 8 * 260
_AHEAD = 6  # frames whose nodes are prefetched
_LINES = 4  # cache lines prefetched of a node
_ONE = u64(1)
V, U = vector(1), vector(1, 64, "uint")


@kernel((U, V, U, V))
def distinct(keys: Bits, ids: Array, entries: Bits, values: Array) -> int:
    """Sorted rows as entries: a key and its id, or ``~start`` if several rows have that key."""
    filled = 0
    for i in range(keys.size):
        if i and keys[i] == keys[i - 1]:
            if values[filled - 1] >= 0:
                values[filled - 1] = ~(i - 1)
            continue
        entries[filled] = keys[i]
        values[filled] = ids[i]
        filled += 1
    return filled


@inlined
def _run_of(keys: Bits, start: int) -> int:
    """Where the rows of a key end."""
    stop = start + 1
    while stop < keys.size and keys[stop] == keys[start]:
        stop += 1
    return stop


@inlined
def _is_run(value: int) -> bool:
    """Whether the value of an entry still stands for several rows of the batch."""
    return value < 0 and ((value >> 58) & 31) == 31


@inlined
def _make_lists(t: Trie, keys: Bits, ids: Array, values: Array, start: int, stop: int) -> bool:
    """Put rows of equal keys into lists. False: no room; call again."""
    for i in range(start, stop):
        if _is_run(values[i]):
            first = ~values[i]
            value = extend_list(t, NONE, ids, first, _run_of(keys, first))
            if value == NONE:
                return False
            values[i] = value
    return True


@inlined
def _places(
    t: Trie, head: int, body: int, slot: int, keys: Bits, ids: Array,
    entries: Bits, values: Array, places: Array, start: int, stop: int,
) -> int:  # fmt: skip
    """Find entries in a leaf: extend the lists of known keys, and move the others to the end.

    Returns where the others start; ``places`` holds the entry of the leaf before which each
    belongs. ``~w``: no room; the remaining entries then end at ``w``.
    """
    form, count = form_of(head), count_of(head)
    level = level_of(head)
    log = log_of(level)
    first = body + 4 if form == BITS else run_values(body, room_of(head), log)
    filled, place = stop, 0
    for i in range(stop - 1, start - 1, -1):
        key = entries[i]
        at = -1
        if form == RUN:
            place = near(t, body, log, level, count, key)
            if place < count and not below(suffix_at(t, body, log, place) ^ key, level):
                at = first + place
        elif form == BITS:
            byte = byte_of(key, 1)
            place = rank(t.bits, body, byte)
            if (t.bits[body + (byte >> 6)] >> u64(byte & 63)) & _ONE:
                at = first + place
        else:
            own = head >> u64(8)
            place = i64(below(key, level) > own)
            if below(key, level) == own:
                at = slot + 1
        if at < 0:
            filled -= 1
            entries[filled] = key
            values[filled] = values[i]
            places[filled] = place
            continue
        if _is_run(values[i]):
            begin = ~values[i]
            value = extend_list(t, t.words[at], ids, begin, _run_of(keys, begin))
        else:
            value = extend_list(t, t.words[at], values, i, i + 1)
        if value == NONE:
            for j in range(filled, stop):
                entries[i + 1 + j - filled] = entries[j]
                values[i + 1 + j - filled] = values[j]
            return ~(i + 1 + stop - filled)
        t.words[at] = value
        if form != ONE:
            t.bits[slot] |= u64(8)
    return filled


@inlined
def _apart(t: Trie, head: int, body: int, first: int, last: int) -> int:
    """The bits in which the keys of a leaf and those from ``first`` to ``last`` differ."""
    form, level = form_of(head), level_of(head)
    if form == ONE:
        own = head >> u64(8)
        return (first ^ last) | below(first ^ own, level)
    if form == RUN:
        log = log_of(level)
        low, high = suffix_at(t, body, log, 0), suffix_at(t, body, log, count_of(head) - 1)
        return (first ^ last) | below((first ^ low) | (first ^ high), level)
    return first ^ last


@inlined
def _branch_units(t: Trie, children: int) -> int:
    """Upper bound on the size of a branch with at most ``children`` children."""
    return 300 if children >= t.facts[FULL_FROM] else 8 + children + (children >> 2)


@inlined
def _merge_run(
    t: Trie, slot: int, entries: Bits, values: Array, places: Array, start: int, stop: int
) -> None:
    """Merge entries into a run, from the last to the first, in its block or into a larger one."""
    head, body = t.bits[slot], t.words[slot + 1]
    count, room, level = count_of(head), room_of(head), level_of(head)
    log = log_of(level)
    total = count + stop - start
    at, new_room = body, room
    if total > room:
        units = units_of(run_words(total, log))
        at, new_room = take(t, units), run_room(units, log)
    old, to = run_values(body, room, log), run_values(at, new_room, log)
    high, lists = count, i64((head >> u64(3)) & _ONE)
    for i in range(stop - 1, start - 1, -1):
        place, more = places[i], i - start + 1
        _move(t, body, at, log, place, high, more)
        shift(t.words, to + place + more, old + place, high - place)
        write_suffix(t, at, log, place + more - 1, entries[i])
        t.words[to + place + more - 1] = values[i]
        lists |= values[i] < 0
        high = place
    if at != body:
        _move(t, body, at, log, 0, high, 0)
        shift(t.words, to, old, high)
        release(t, body, units_of(run_words(room, log)))
    t.bits[slot] = head_of(RUN, lists, level, total, new_room)
    t.words[slot + 1] = at


@inlined
def _move(t: Trie, old: int, to: int, log: int, low: int, high: int, more: int) -> None:
    """Move the suffixes ``[low, high)`` of a run by ``more`` places, into block ``to``."""
    size = 3 - log
    shift_to, shift_from = (to << size) + low + more, (old << size) + low
    if log == 1:
        shift(t.pairs, shift_to, shift_from, high - low)
    elif log == 0:
        shift(t.octets, shift_to, shift_from, high - low)
    elif log == 2:
        shift(t.quads, shift_to, shift_from, high - low)
    else:
        shift(t.bits, shift_to, shift_from, high - low)


@inlined
def _merge_bits(
    t: Trie, slot: int, entries: Bits, values: Array, places: Array, start: int, stop: int
) -> None:
    """Merge entries into a bitmap leaf, in its block or into a larger one."""
    head, body = t.bits[slot], t.words[slot + 1]
    count, room = count_of(head), room_of(head)
    total = count + stop - start
    at, new_room = body, room
    if total > room:
        units = units_of(4 + total)
        at, new_room = take(t, units), min(256, 2 * units - 4)
    high, lists = count, i64((head >> u64(3)) & _ONE)
    for i in range(stop - 1, start - 1, -1):
        place, more = places[i], i - start + 1
        shift(t.words, at + 4 + place + more, body + 4 + place, high - place)
        t.words[at + 4 + place + more - 1] = values[i]
        lists |= values[i] < 0
        high = place
    if at != body:
        shift(t.words, at, body, 4 + high)
        release(t, body, units_of(4 + room))
    for i in range(start, stop):
        byte = byte_of(entries[i], 1)
        t.bits[at + (byte >> 6)] |= _ONE << u64(byte & 63)
    t.bits[slot] = head_of(BITS, lists, 1, total, new_room)
    t.words[slot + 1] = at


@inlined
def _remake(
    t: Trie, slot: int, level: int, entries: Bits, values: Array, places: Array, start: int,
    stop: int, hold: Bits, held: Array,
) -> None:  # fmt: skip
    """Merge entries into a leaf whose form changes, through the arrays ``hold`` and ``held``."""
    head, body = t.bits[slot], t.words[slot + 1]
    count = copy_entries(t, head, body, prefix_of(entries[start], level), hold, held)
    high = count
    for i in range(stop - 1, start - 1, -1):
        place, more = places[i], i - start + 1
        shift(hold, place + more, place, high - place)
        shift(held, place + more, place, high - place)
        hold[place + more - 1] = entries[i]
        held[place + more - 1] = values[i]
        high = place
    drop_block(t, head, body)
    make_leaf(t, slot, level, hold, held, 0, count + stop - start)


@inlined
def _ask_for(t: Trie, slot: int) -> None:
    """Prefetch the node of a slot that a later frame will visit."""
    body = t.words[slot + 1]
    for line in range(_LINES):
        prefetch(t.words, body + 8 * line)


@kernel((TRIE, U, V, U, V, V, U, V, U, V))
def put_rows(
    t: Trie, keys: Bits, ids: Array, entries: Bits, values: Array, places: Array,
    hold: Bits, held: Array, sets: Bits, stack: Array,
) -> bool:  # fmt: skip
    """Insert the entries that ``distinct`` made of ``keys`` and ``ids``, from the root's frame on.

    False: the arena lacks room (NEED); call again with a larger one. ``sets`` is scratch of nine
    words, ``hold`` and ``held`` of twice the largest leaf, ``places`` of the batch.
    """
    of, more = sets[:4], sets[4:8]
    any_key = sets[8:9]
    while stack[0]:
        frame = 1 + FRAME * (stack[0] - 1)
        slot, start, stop, level = (
            stack[frame], stack[frame + 1], stack[frame + 2], stack[frame + 3],
        )  # fmt: skip
        if stack[0] > _AHEAD:
            _ask_for(t, stack[frame - _AHEAD * FRAME])
        head, body = t.bits[slot], t.words[slot + 1]
        form = form_of(head)
        most = 256 if level == 1 else t.facts[RUN_MOST]
        if form < LINEAR:
            if form != EMPTY:
                start = _places(
                    t, head, body, slot, keys, ids, entries, values, places, start, stop
                )  # fmt: skip
                if start < 0:
                    stack[frame + 2] = ~start
                    return False
                stack[frame + 1] = start
                head = t.bits[slot]
                if start == stop:
                    stack[0] -= 1
                    continue
            count = 0 if form == EMPTY else 1 if form == ONE else count_of(head)
            total = count + stop - start
            first, last = entries[start], entries[stop - 1]
            apart = first ^ last
            if total > most:
                apart = _apart(t, head, body, first, last)
            if total <= most or apart < u64(256):
                if not _make_lists(t, keys, ids, values, start, stop):
                    return False
                if not roomy(t, 8 + total + (total >> 2)):
                    return False
                if form == EMPTY:
                    make_leaf(t, slot, level, entries, values, start, stop)
                elif form == RUN and (level > 1 or total < BITS_FROM):
                    _merge_run(t, slot, entries, values, places, start, stop)
                elif form == BITS:
                    _merge_bits(t, slot, entries, values, places, start, stop)
                else:
                    _remake(t, slot, level, entries, values, places, start, stop, hold, held)
                for i in range(start, stop):
                    t.facts[ROWS] += values[i] >= 0
                t.facts[KEYS] += stop - start
                stack[0] -= 1
                continue
            if not roomy(t, 2 * count + _branch_units(t, count)):
                return False
            if form == EMPTY:
                any_key[0] = first
                for word in range(4):
                    of[word] = u64(0)
                byte = byte_of(first, top_level(apart))
                of[byte >> 6] = _ONE << u64(byte & 63)
                make_branch(t, slot, top_level(apart), 1, any_key, of)
            else:
                copy_entries(t, head, body, prefix_of(first, level), hold, held)
                drop_block(t, head, body)
                split_leaf(t, slot, top_level(apart), count, hold, held, of)
            continue
        # A branch: check that all keys are inside its prefix.
        own = level_of(head)
        if not roomy(t, _branch_units(t, count_of(head) + stop - start)):
            return False
        prefix = t.bits[body]
        apart = (entries[start] ^ prefix) | (entries[stop - 1] ^ prefix)
        if own < 8 and apart >> u64(8 * own):
            above = top_level(apart)
            any_key[0] = prefix
            for word in range(4):
                of[word] = u64(0)
            byte = byte_of(prefix, above)
            of[byte >> 6] = _ONE << u64(byte & 63)
            make_branch(t, slot, above, 1, any_key, of)
            child = child_slot(t, t.bits[slot], t.words[slot + 1], byte)
            t.bits[child] = head
            t.words[child + 1] = body
            continue
        # One frame per byte, the first on top.
        for word in range(4):
            more[word] = u64(0)
        bottom = stack[0] - 1
        number, end, missing = bottom, stop, False
        while end > start:
            byte, begin = byte_of(entries[end - 1], own), end - 1
            while begin > start and byte_of(entries[begin - 1], own) == byte:
                begin -= 1
            more[byte >> 6] |= _ONE << u64(byte & 63)
            child = child_slot(t, head, body, byte)
            missing |= child < 0 or form_of(t.bits[child]) == EMPTY
            frame = 1 + FRAME * number
            stack[frame], stack[frame + 1], stack[frame + 2], stack[frame + 3] = (
                child, begin, end, own - 1,
            )  # fmt: skip
            number += 1
            end = begin
        if missing:
            add_bytes(t, slot, more, of)
            head, body = t.bits[slot], t.words[slot + 1]
            for i in range(bottom, number):
                frame = 1 + FRAME * i
                byte = byte_of(entries[stack[frame + 1]], own)
                stack[frame] = child_slot(t, head, body, byte)
        stack[0] = number
    return True
