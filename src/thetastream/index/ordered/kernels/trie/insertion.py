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

from thetastream._jit.arrays import Array, Words, i64, u64
from thetastream._jit.compiling import U, V, inlined, kernel
from thetastream._jit.intrinsics import prefetch, shift
from thetastream.index.ordered.kernels.trie import arena, build, nodes
from thetastream.index.ordered.kernels.trie.arena import TRIE, Trie
from thetastream.index.ordered.kernels.trie.find import near

FRAME = 4  # words of a frame: slot, first and last row (half open), level
STACK = 1 + FRAME * 8 * 260
_AHEAD = 6  # frames whose nodes are prefetched
_LINES = 4  # cache lines prefetched of a node


@kernel((U, V, U, V))
def distinct(keys: Words, ids: Array, entries: Words, values: Array) -> int:
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
def _run_of(keys: Words, start: int) -> int:
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
def _make_lists(t: Trie, keys: Words, ids: Array, values: Array, start: int, stop: int) -> bool:
    """Put rows of equal keys into lists. False: no room; call again."""
    for i in range(start, stop):
        if _is_run(values[i]):
            first = ~values[i]
            value = build.extend_list(t, nodes.NONE, ids, first, _run_of(keys, first))
            if value == nodes.NONE:
                return False
            values[i] = value
    return True


@inlined
def _places(
    t: Trie, head: int, body: int, slot: int, keys: Words, ids: Array,
    entries: Words, values: Array, places: Array, start: int, stop: int,
) -> int:  # fmt: skip
    """Find entries in a leaf: extend the lists of known keys, and move the others to the end.

    Returns where the others start; ``places`` holds the entry of the leaf before which each
    belongs. ``~w``: no room; the remaining entries then end at ``w``.
    """
    form, count, level = nodes.form_of(head), nodes.count_of(head), nodes.level_of(head)
    log = nodes.log_of(level)
    first = body + 4 if form == nodes.BITS else nodes.run_values(body, nodes.room_of(head), log)
    filled, place = stop, 0
    for i in range(stop - 1, start - 1, -1):
        key = entries[i]
        at = -1
        if form == nodes.RUN:
            place = near(t, body, log, level, count, key)
            if place < count and not nodes.below(nodes.suffix_at(t, body, log, place) ^ key, level):
                at = first + place
        elif form == nodes.BITS:
            byte = nodes.byte_of(key, 1)
            place = nodes.rank(t.bits, body, byte)
            if nodes.has_byte(t.bits, body, byte):
                at = first + place
        else:
            own = head >> u64(8)
            place = i64(nodes.below(key, level) > own)
            if nodes.below(key, level) == own:
                at = slot + 1
        if at < 0:
            filled -= 1
            entries[filled] = key
            values[filled] = values[i]
            places[filled] = place
            continue
        if _is_run(values[i]):
            begin = ~values[i]
            value = build.extend_list(t, t.words[at], ids, begin, _run_of(keys, begin))
        else:
            value = build.extend_list(t, t.words[at], values, i, i + 1)
        if value == nodes.NONE:
            for j in range(filled, stop):
                entries[i + 1 + j - filled] = entries[j]
                values[i + 1 + j - filled] = values[j]
            return ~(i + 1 + stop - filled)
        t.words[at] = value
        if form != nodes.ONE:
            t.bits[slot] |= u64(8)
    return filled


@inlined
def _apart(t: Trie, head: int, body: int, first: int, last: int) -> int:
    """The bits in which the keys of a leaf and those from ``first`` to ``last`` differ."""
    form, level = nodes.form_of(head), nodes.level_of(head)
    if form == nodes.ONE:
        own = head >> u64(8)
        return (first ^ last) | nodes.below(first ^ own, level)
    if form == nodes.RUN:
        log = nodes.log_of(level)
        low = nodes.suffix_at(t, body, log, 0)
        high = nodes.suffix_at(t, body, log, nodes.count_of(head) - 1)
        return (first ^ last) | nodes.below((first ^ low) | (first ^ high), level)
    return first ^ last


@inlined
def _branch_units(t: Trie, children: int) -> int:
    """Upper bound on the size of a branch with at most ``children`` children."""
    return 300 if children >= t.facts[arena.FULL_FROM] else 8 + children + (children >> 2)


@inlined
def _merge_run(
    t: Trie, slot: int, entries: Words, values: Array, places: Array, start: int, stop: int
) -> None:
    """Merge entries into a run, from the last to the first, in its block or into a larger one."""
    head, body = t.bits[slot], t.words[slot + 1]
    count, room, level = nodes.count_of(head), nodes.room_of(head), nodes.level_of(head)
    log = nodes.log_of(level)
    total = count + stop - start
    at, new_room = body, room
    if total > room:
        units = arena.units_of(nodes.run_words(total, log))
        at, new_room = arena.take(t, units), build.run_room(units, log)
    old, to = nodes.run_values(body, room, log), nodes.run_values(at, new_room, log)
    high, lists = count, nodes.lists_of(head)
    for i in range(stop - 1, start - 1, -1):
        place, more = places[i], i - start + 1
        build.move_suffixes(t, body, at, log, place, high, more)
        shift(t.words, to + place + more, old + place, high - place)
        build.write_suffix(t, at, log, place + more - 1, entries[i])
        t.words[to + place + more - 1] = values[i]
        lists |= values[i] < 0
        high = place
    if at != body:
        build.move_suffixes(t, body, at, log, 0, high, 0)
        shift(t.words, to, old, high)
        arena.release(t, body, arena.units_of(nodes.run_words(room, log)))
    nodes.write_slot(t, slot, nodes.head_of(nodes.RUN, lists, level, total, new_room), at)


@inlined
def _merge_bits(
    t: Trie, slot: int, entries: Words, values: Array, places: Array, start: int, stop: int
) -> None:
    """Merge entries into a bitmap leaf, in its block or into a larger one."""
    head, body = t.bits[slot], t.words[slot + 1]
    count, room = nodes.count_of(head), nodes.room_of(head)
    total = count + stop - start
    at, new_room = body, room
    if total > room:
        units = arena.units_of(4 + total)
        at, new_room = arena.take(t, units), min(256, 2 * units - 4)
    high, lists = count, nodes.lists_of(head)
    for i in range(stop - 1, start - 1, -1):
        place, more = places[i], i - start + 1
        shift(t.words, at + 4 + place + more, body + 4 + place, high - place)
        t.words[at + 4 + place + more - 1] = values[i]
        lists |= values[i] < 0
        high = place
    if at != body:
        shift(t.words, at, body, 4 + high)
        arena.release(t, body, arena.units_of(4 + room))
    for i in range(start, stop):
        nodes.put_byte(t.bits, at, nodes.byte_of(entries[i], 1))
    nodes.write_slot(t, slot, nodes.head_of(nodes.BITS, lists, 1, total, new_room), at)


@inlined
def _remake(
    t: Trie, slot: int, level: int, entries: Words, values: Array, places: Array, start: int,
    stop: int, hold: Words, held: Array,
) -> None:  # fmt: skip
    """Merge entries into a leaf whose form changes, through the arrays ``hold`` and ``held``."""
    head, body = t.bits[slot], t.words[slot + 1]
    count = build.copy_entries(t, head, body, nodes.prefix_of(entries[start], level), hold, held)
    high = count
    for i in range(stop - 1, start - 1, -1):
        place, more = places[i], i - start + 1
        shift(hold, place + more, place, high - place)
        shift(held, place + more, place, high - place)
        hold[place + more - 1] = entries[i]
        held[place + more - 1] = values[i]
        high = place
    build.drop_block(t, head, body)
    build.make_leaf(t, slot, level, hold, held, 0, count + stop - start)


@inlined
def _ask_for(t: Trie, slot: int) -> None:
    """Prefetch the node of a slot that a later frame will visit."""
    body = t.words[slot + 1]
    for line in range(_LINES):
        prefetch(t.words, body + 8 * line)


@kernel((TRIE, U, V, U, V, V, U, V, U, V))
def put_rows(
    t: Trie, keys: Words, ids: Array, entries: Words, values: Array, places: Array,
    hold: Words, held: Array, sets: Words, stack: Array,
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
        form = nodes.form_of(head)
        most = 256 if level == 1 else t.facts[arena.RUN_MOST]
        if form < nodes.LINEAR:
            if form != nodes.EMPTY:
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
            count = 0 if form == nodes.EMPTY else 1 if form == nodes.ONE else nodes.count_of(head)
            total = count + stop - start
            first, last = entries[start], entries[stop - 1]
            apart = first ^ last
            if total > most:
                apart = _apart(t, head, body, first, last)
            if total <= most or apart < u64(256):
                if not _make_lists(t, keys, ids, values, start, stop):
                    return False
                if not arena.roomy(t, 8 + total + (total >> 2)):
                    return False
                if form == nodes.EMPTY:
                    build.make_leaf(t, slot, level, entries, values, start, stop)
                elif form == nodes.RUN and (level > 1 or total < build.BITS_FROM):
                    _merge_run(t, slot, entries, values, places, start, stop)
                elif form == nodes.BITS:
                    _merge_bits(t, slot, entries, values, places, start, stop)
                else:
                    _remake(t, slot, level, entries, values, places, start, stop, hold, held)
                for i in range(start, stop):
                    t.facts[arena.ROWS] += values[i] >= 0
                t.facts[arena.KEYS] += stop - start
                stack[0] -= 1
                continue
            if not arena.roomy(t, 2 * count + _branch_units(t, count)):
                return False
            if form == nodes.EMPTY:
                build.branch_of_one(t, slot, nodes.top_level(apart), first, any_key, of)
            else:
                build.copy_entries(t, head, body, nodes.prefix_of(first, level), hold, held)
                build.drop_block(t, head, body)
                build.split_leaf(t, slot, nodes.top_level(apart), count, hold, held, of)
            continue
        # A branch: check that all keys are inside its prefix.
        own = nodes.level_of(head)
        if not arena.roomy(t, _branch_units(t, nodes.count_of(head) + stop - start)):
            return False
        prefix = t.bits[body]
        apart = (entries[start] ^ prefix) | (entries[stop - 1] ^ prefix)
        if own < 8 and apart >> u64(8 * own):
            above = nodes.top_level(apart)
            build.branch_of_one(t, slot, above, prefix, any_key, of)
            byte = nodes.byte_of(prefix, above)
            child = nodes.child_slot(t, t.bits[slot], t.words[slot + 1], byte)
            nodes.write_slot(t, child, head, body)
            continue
        # One frame per byte, the first on top.
        nodes.clear_set(more)
        bottom = stack[0] - 1
        number, end, missing = bottom, stop, False
        while end > start:
            byte, begin = nodes.byte_of(entries[end - 1], own), end - 1
            while begin > start and nodes.byte_of(entries[begin - 1], own) == byte:
                begin -= 1
            nodes.put_byte(more, 0, byte)
            child = nodes.child_slot(t, head, body, byte)
            missing |= child < 0 or nodes.form_of(t.bits[child]) == nodes.EMPTY
            frame = 1 + FRAME * number
            stack[frame], stack[frame + 1], stack[frame + 2], stack[frame + 3] = (
                child, begin, end, own - 1,
            )  # fmt: skip
            number += 1
            end = begin
        if missing:
            build.add_bytes(t, slot, more, of)
            head, body = t.bits[slot], t.words[slot + 1]
            for i in range(bottom, number):
                frame = 1 + FRAME * i
                byte = nodes.byte_of(entries[stack[frame + 1]], own)
                stack[frame] = nodes.child_slot(t, head, body, byte)
        stack[0] = number
    return True
