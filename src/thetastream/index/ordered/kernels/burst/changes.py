"""Changing a burst trie: inserting rows, deleting them, moving everything to other arrays.

Paper: Ordered Indexing, Section 2: a full container bursts, and its keys are spread by their next
byte over new containers.
"""

from __future__ import annotations

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import V, inlined, kernel
from thetastream.index.ordered.kernels.burst import nodes
from thetastream.index.ordered.kernels.burst.nodes import BURST, Burst

BURSTS = 3  # a status of ``put_run``, besides DONE and NO_ROOM


# --- Insert --------------------------------------------------------------------------------------


@kernel((BURST, V, V, V))
def put_rows(t: Burst, keys: Array, ids: Array, cursor: Array) -> int:
    """Insert rows sorted by (key, id) from ``cursor[0]`` on, after their equals.

    Rows of the same container are merged into it together, in O(depth + container).
    """
    i, n = cursor[0], keys.size
    status = nodes.DONE
    while i < n and status == nodes.DONE:
        key = keys[i]
        slot, node, level = 0, 0, 8
        pointer = nodes.pointer_at(t, 0)
        while pointer < 0:
            node, level = (-pointer - 1) >> 3, (-pointer - 1) & 7
            slot = 256 * node + nodes.byte_of(key, level)
            pointer = nodes.pointer_at(t, slot)
        if level < 8 and nodes.above(key ^ t.prefixes[node], level) != 0:
            status = wedge(t, key)
            continue
        j = i + 1
        if level == 8:
            j = n
        else:
            while j < n and (keys[j] ^ key) >> (8 * level) == 0:
                j += 1
        status = put_run(t, slot, pointer, keys, ids, i, j)
        if status == BURSTS:
            status = burst(t, slot, pointer, keys[i], keys[j - 1])
        elif status == nodes.DONE:
            i = j
    cursor[0] = i
    return status


@inlined
def put_run(
    t: Burst, slot: int, pointer: int, keys: Array, ids: Array, start: int, stop: int
) -> int:
    """Merge rows into the container of a slot, unless it would overflow."""
    run, pool = stop - start, t.pool
    at, size, gap = 2 * pointer, 0, 0
    least, most = keys[start], keys[stop - 1]
    if pointer > 0:
        size, gap = pool[at] >> 7, pool[at + 1]
        least = min(least, pool[at + nodes.HEAD + gap])
        most = max(most, pool[at + nodes.HEAD + gap + size - 1])
    total = size + run
    if total > t.facts[nodes.LIMIT] and least != most:
        return BURSTS
    room = t.rooms[pool[at] & 127] if pointer > 0 else 0
    if gap + total > room:
        # Closing a small gap is not worth moving everything: it would soon happen again.
        wanted = total + (gap if total <= room and 4 * gap < room else 0)
        size_class = nodes.class_for(t, wanted, pool[at] & 127 if pointer > 0 else 0)
        if t.rooms[size_class] == room:
            move_rows(pool, at, room, gap, at, room, size)
        else:
            fresh = nodes.take_block(t, size_class)
            if fresh < 0:
                return nodes.NO_ROOM
            if pointer > 0:
                move_rows(pool, at, room, gap, fresh, t.rooms[size_class], size)
                nodes.free_block(t, at)
            else:
                t.counts[slot >> 8] += 1
            at, room = fresh, t.rooms[size_class]
            t.tables[slot] = at >> 1
            pool[at] = 128 * size + size_class
        gap = 0
        pool[at + 1] = 0
    merge_rows(pool, at + nodes.HEAD + gap, room, size, keys, ids, start, stop)
    pool[at] += 128 * run
    t.facts[nodes.HELD] += run
    return nodes.DONE


@inlined
def move_rows(
    pool: Array, source: int, room: int, gap: int, target: int, target_room: int, size: int
) -> None:
    """Copy the rows of a block to the start of another, or of the same."""
    a, b = source + nodes.HEAD + gap, target + nodes.HEAD
    for i in range(size):
        pool[b + i] = pool[a + i]
    for i in range(size):
        pool[b + target_room + i] = pool[a + room + i]


@inlined
def merge_rows(
    pool: Array, first: int, room: int, size: int, keys: Array, ids: Array, start: int, stop: int
) -> None:
    """Merge rows into a block with room for them, each after its equals; from the back."""
    a, w, b = first + size - 1, first + size + stop - start - 1, stop - 1
    while b >= start:
        key = keys[b]
        while a >= first and pool[a] > key:
            pool[w] = pool[a]
            pool[w + room] = pool[a + room]
            a -= 1
            w -= 1
        pool[w] = key
        pool[w + room] = ids[b]
        w -= 1
        b -= 1


@inlined
def burst(t: Burst, slot: int, pointer: int, least: int, most: int) -> int:
    """Replace the container of a slot by an inner node with containers below it.

    ``least`` and ``most`` are the ends of the rows still to insert. O(256 + rows).
    """
    pool, at, size, first = t.pool, 2 * pointer, 0, 0
    if pointer > 0:
        size, first = pool[at] >> 7, at + nodes.HEAD + pool[at + 1]
        least, most = min(least, pool[first]), max(most, pool[first + size - 1])
    # The room of a block is at most twice its rows.
    if t.facts[nodes.TOP] + (nodes.HEAD + 4) * size > pool.size:
        t.facts[nodes.WANTED] = (nodes.HEAD + 4) * size
        return nodes.NO_ROOM
    node = nodes.take_node(t, least)
    if node < 0:
        return nodes.NO_NODES
    level = nodes.highest(least ^ most)
    ids, i = t.rooms[pool[at] & 127] if pointer > 0 else 0, 0
    while i < size:
        byte, j = nodes.byte_of(pool[first + i], level), i + 1
        while j < size and nodes.byte_of(pool[first + j], level) == byte:
            j += 1
        size_class = nodes.class_for(t, j - i, 0)
        fresh = nodes.take_block(t, size_class)
        pool[fresh] = 128 * (j - i) + size_class
        room, place = t.rooms[size_class], fresh + nodes.HEAD - i
        for k in range(i, j):
            pool[place + k] = pool[first + k]
            pool[place + room + k] = pool[first + ids + k]
        t.tables[256 * node + byte] = fresh >> 1
        t.counts[node] += 1
        i = j
    if pointer > 0:
        nodes.free_block(t, at)
    else:
        t.counts[slot >> 8] += 1
    t.tables[slot] = nodes.to_node(node, level)
    return nodes.DONE


@inlined
def wedge(t: Burst, key: int) -> int:
    """Put an inner node above the first node on a key's path whose skipped bytes differ."""
    slot, pointer = 0, nodes.pointer_at(t, 0)
    child, level = (-pointer - 1) >> 3, (-pointer - 1) & 7
    while nodes.above(key ^ t.prefixes[child], level) == 0:
        slot = 256 * child + nodes.byte_of(key, level)
        pointer = nodes.pointer_at(t, slot)
        child, level = (-pointer - 1) >> 3, (-pointer - 1) & 7
    node = nodes.take_node(t, t.prefixes[child])
    if node < 0:
        return nodes.NO_NODES
    level = nodes.highest(key ^ t.prefixes[child])
    t.tables[256 * node + nodes.byte_of(t.prefixes[child], level)] = pointer
    t.counts[node] = 1
    t.tables[slot] = nodes.to_node(node, level)
    return nodes.DONE


# --- Delete --------------------------------------------------------------------------------------


@kernel((BURST, V, V, V))
def take_out_rows(t: Burst, keys: Array, ids: Array, path: Array) -> int:
    """Delete rows by key and id, each searched from the root; returns how many were there.

    The shorter end of a container moves, so the oldest of equal keys leave in O(log container).
    """
    found = 0
    for i in range(keys.size):
        found += take_out(t, keys[i], ids[i], path)
    return found


@inlined
def take_out(t: Burst, key: int, row: int, path: Array) -> int:
    """Remove one row; returns 1 if it was there, else 0."""
    depth, slot, pool = 0, 0, t.pool
    pointer = nodes.pointer_at(t, 0)
    while pointer < 0:
        path[depth] = slot
        depth += 1
        held = -pointer - 1
        slot = 256 * (held >> 3) + nodes.byte_of(key, held & 7)
        pointer = nodes.pointer_at(t, slot)
    if pointer == 0:
        return 0
    at = 2 * pointer
    size, room, gap = pool[at] >> 7, t.rooms[pool[at] & 127], pool[at + 1]
    first = at + nodes.HEAD + gap
    equals = nodes.count_below(pool, first, size, key)
    many = nodes.count_upto(pool, first, size, key) - equals
    place = equals + nodes.count_below(pool, first + room + equals, many, row)
    if place >= equals + many or pool[first + room + place] != row:
        return 0
    if 2 * place < size:
        for i in range(first + place, first, -1):
            pool[i] = pool[i - 1]
            pool[i + room] = pool[i + room - 1]
        pool[at + 1] += 1
    else:
        for i in range(first + place, first + size - 1):
            pool[i] = pool[i + 1]
            pool[i + room] = pool[i + room + 1]
    pool[at] -= 128
    t.facts[nodes.HELD] -= 1
    if size == 1:
        nodes.free_block(t, at)
        prune(t, slot, path, depth)
    elif 4 * (size - 1) <= room:
        shrink(t, slot, at, size - 1)
    return 1


@inlined
def shrink(t: Burst, slot: int, at: int, size: int) -> None:
    """Move rows to a smaller block, if the pool has one."""
    size_class = nodes.class_for(t, size + (size >> 1), 0)
    fresh = nodes.take_block(t, size_class)
    if fresh >= 0:
        room = t.rooms[t.pool[at] & 127]
        move_rows(t.pool, at, room, t.pool[at + 1], fresh, t.rooms[size_class], size)
        t.pool[fresh] = 128 * size + size_class
        nodes.free_block(t, at)
        t.tables[slot] = fresh >> 1


@inlined
def prune(t: Burst, slot: int, path: Array, depth: int) -> None:
    """Empty a slot, and free the nodes above it that become empty."""
    t.tables[slot] = 0
    node = slot >> 8
    t.counts[node] -= 1
    while depth > 0 and t.counts[node] == 0:
        t.prefixes[node] = t.facts[nodes.NODE_FREE]
        t.facts[nodes.NODE_FREE] = node
        t.facts[nodes.NODES] -= 1
        depth -= 1
        t.tables[path[depth]] = 0
        node = path[depth] >> 8
        t.counts[node] -= 1


# --- Moving to other arrays ----------------------------------------------------------------------


@kernel((BURST, BURST, V))
def copy_trie(source: Burst, target: Burst, path: Array) -> int:
    """Copy a trie into the arrays of an empty one, nodes and containers in the order of the keys.

    The arrays must be large enough. O(rows + 256 nodes).
    """
    depth = 0
    path[0] = 0  # per level: node in the source, node in the target, next byte
    path[1] = 0
    path[2] = 0
    while depth >= 0:
        at = 3 * depth
        old, new, byte = path[at], path[at + 1], path[at + 2]
        last = 1 if depth == 0 else 256
        while byte < last and source.tables[256 * old + byte] == 0:
            byte += 1
        path[at + 2] = byte + 1
        if byte >= last:
            depth -= 1
            continue
        pointer, slot = nodes.pointer_at(source, 256 * old + byte), 256 * new + byte
        target.counts[new] += 1
        if pointer < 0:
            child, level = (-pointer - 1) >> 3, (-pointer - 1) & 7
            fresh = nodes.take_node(target, source.prefixes[child])
            target.tables[slot] = nodes.to_node(fresh, level)
            depth += 1
            path[at + 3] = child
            path[at + 4] = fresh
            path[at + 5] = 0
        else:
            block = 2 * pointer
            size, size_class = source.pool[block] >> 7, source.pool[block] & 127
            room = source.rooms[size_class]
            fresh = nodes.take_block(target, size_class)
            target.pool[fresh] = source.pool[block]
            a, b = block + nodes.HEAD + source.pool[block + 1], fresh + nodes.HEAD
            for i in range(size):
                target.pool[b + i] = source.pool[a + i]
            for i in range(size):
                target.pool[b + room + i] = source.pool[a + room + i]
            target.tables[slot] = fresh >> 1
    target.facts[nodes.HELD] = source.facts[nodes.HELD]
    return nodes.DONE
