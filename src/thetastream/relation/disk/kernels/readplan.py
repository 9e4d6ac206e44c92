"""Read plans for an ascending list of wanted leaves (SSIJ, IV-D).

Leaf ``i`` fills the blocks ``[blocks[i], ends[i])``. A plan cuts the list of leaves into runs;
leaves ``i … e`` are read as one *sequence* of ``ends[e] - blocks[i]`` blocks, for ``S + T ×
length``. A sequence of several leaves has at most ``max_scan`` blocks; a longer leaf is read alone.
Sequences begin and end with wanted blocks and never overlap, as in every optimal plan. Kernels
write the first leaf of each sequence and return the number of sequences.

    wanted    ■■·■······■·■■       S = 3, T = 1: gaps of 3 and more are never read
    plan      ╰──╯      ╰──╯

**Gaps that never pay.** Let ``g`` unwanted blocks lie between two wanted leaves, ``g × T ≥ S``.
Take any plan with a sequence that reads this gap, and cut the sequence there. Both parts are
shorter than the whole, so ``max_scan`` still holds; they cover the same leaves; and the cost
changes by ``S - g × T ≤ 0``. So some optimal plan reads no such gap, and the leaves fall into
*clusters* that are planned separately. (The paper expresses this by distance: ``dist = g + 1`` must
be below ``maxDist = 1 + S / T``.) Neighbours, ``g = 0``, are not cut apart, not even if ``S = 0``.

**The programme.** ``OPT[j]`` is the least cost of the leaves from ``j`` to the end of its cluster:

    OPT[j] = min { S + T × (ends[e] - blocks[j]) + OPT[e + 1] }
             over e = j, and e > j with ends[e] - blocks[j] ≤ max_scan

The paper tries every ``e``: O(|P| × maxScan), here ``recurrence``. But in the minimum nothing
except ``blocks[j]`` depends on ``j``. Taken out, it leaves ``V[e] = T × ends[e] + OPT[e + 1]``, and
as ``j`` goes down, the range of ``e`` moves down at both ends: the minimum of a sliding window.
A queue holds the candidates, ascending in ``e``. A new one, the lowest ``e``, stays longest, so it
displaces those with a greater ``V``; the rest has the least ``V`` at the far end, where candidates
leave when ``max_scan`` forbids them. Each leaf enters and leaves once: O(|P|), whatever
``max_scan`` is, with the one array of costs (``V``), and the choices to read the plan from.
"""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import Array, Floats
from thetastream._jit.compiling import device, kernel


@device
def _pays(gap: int, seek: float, transfer: float) -> bool:
    """Whether reading a gap can be cheaper than a second seek."""
    return gap == 0 or gap * transfer < seek


@device
def _cut(lasts: Array, firsts: Array) -> int:
    """Follow the choices from the first leaf on: the first leaves of the sequences."""
    sequences = leaf = 0
    while leaf < lasts.size:
        firsts[sequences] = leaf
        sequences += 1
        leaf = lasts[leaf] + 1
    return sequences


@kernel("i8(i8[::1], i8[::1], f8, f8, i8, f8[::1], i8[::1], i8[::1])")
def optimal(
    blocks: Array,
    ends: Array,
    seek: float,
    transfer: float,
    max_scan: int,
    values: Floats,
    lasts: Array,
    firsts: Array,
) -> int:
    """The cheapest plan; of equally good sequences, the longest. O(|P|).

    ``values``, ``lasts`` and ``firsts`` have one entry per leaf: ``V``, the last leaf of the best
    sequence that begins at a leaf, and first the queue, in ``[head, tail)``, then the result.
    ``ends`` and ``blocks`` count from ``origin``, the end of the cluster, so that sums stay small.
    """
    leaves = blocks.size
    queue = firsts
    head = tail = leaves
    origin = 0
    cost = 0.0  # OPT of the leaf above
    for j in range(leaves - 1, -1, -1):
        if j + 1 == leaves or not _pays(blocks[j + 1] - ends[j], seek, transfer):
            head = tail = leaves
            origin = ends[j]
            cost = 0.0
        values[j] = transfer * (ends[j] - origin) + cost
        while head < tail and values[queue[head]] > values[j]:
            head += 1
        head -= 1
        queue[head] = j
        while head < tail - 1 and ends[queue[tail - 1]] - blocks[j] > max_scan:
            tail -= 1
        lasts[j] = queue[tail - 1]
        cost = seek + transfer * (origin - blocks[j]) + values[lasts[j]]
    return _cut(lasts, firsts)


@kernel("i8(i8[::1], i8[::1], f8, f8, i8, f8[::1], i8[::1], i8[::1])")
def recurrence(
    blocks: Array,
    ends: Array,
    seek: float,
    transfer: float,
    max_scan: int,
    costs: Floats,
    lasts: Array,
    firsts: Array,
) -> int:
    """The cheapest plan as in the paper: tries every end of every sequence. O(|P| × maxScan).

    ``costs`` has one entry more than there are leaves.
    """
    leaves = blocks.size
    costs[leaves] = 0.0
    for j in range(leaves - 1, -1, -1):
        costs[j] = np.inf
        for e in range(j, leaves):
            length = ends[e] - blocks[j]
            if e > j and length > max_scan:
                break
            cost = seek + transfer * length + costs[e + 1]
            if cost <= costs[j]:
                costs[j] = cost
                lasts[j] = e
            if e + 1 < leaves and not _pays(blocks[e + 1] - ends[e], seek, transfer):
                break
    return _cut(lasts, firsts)


@kernel("i8(i8[::1], i8[::1], i8, i8, i8[::1])")
def greedy(blocks: Array, ends: Array, unwanted: int, max_scan: int, firsts: Array) -> int:
    """The longest allowed sequences, with gaps of at most ``unwanted`` blocks. O(|P|).

    The heuristic of Seeger, Larson and McFayden, "Reading a set of disk pages" (VLDB 1993).
    """
    sequences = 0
    start = 0
    for i in range(blocks.size):
        if i == 0 or blocks[i] - ends[i - 1] > unwanted or ends[i] - start > max_scan:
            firsts[sequences] = i
            sequences += 1
            start = blocks[i]
    return sequences


@device
def _rise(heap: Array, places: Array, costs: Floats, at: int) -> None:
    """Move an entry of the heap up to where its cost belongs."""
    node = heap[at]
    while at > 0 and costs[heap[(at - 1) >> 1]] > costs[node]:
        above = (at - 1) >> 1
        heap[at] = heap[above]
        places[heap[at]] = at
        at = above
    heap[at] = node
    places[node] = at


@device
def _sink(heap: Array, places: Array, costs: Floats, size: int) -> None:
    """Move the root of the heap down to where its cost belongs."""
    node = heap[0]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and costs[heap[child + 1]] < costs[heap[child]]:
            child += 1
        if costs[heap[child]] >= costs[node]:
            break
        heap[at] = heap[child]
        places[heap[at]] = at
        at = child
    heap[at] = node
    places[node] = at


@kernel("i8(i8[::1], i8[::1], f8, f8, i8, f8[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8[::1])")
def shortest_path(
    blocks: Array,
    ends: Array,
    seek: float,
    transfer: float,
    max_scan: int,
    costs: Floats,
    heap: Array,
    places: Array,
    before: Array,
    lasts: Array,
    firsts: Array,
) -> int:
    """The cheapest plan as a shortest path (Seeger et al.; Dijkstra): O(E log |P|).

    Node ``i``: all leaves below ``i`` are read. An edge ``i → e + 1``: a sequence ``i … e``; there
    are O(|P| × maxScan), as gaps that never pay are not excluded. ``costs``, ``heap``, ``places``
    and ``before`` have one entry per node, one more than there are leaves.
    """
    leaves = blocks.size
    for node in range(leaves + 1):
        costs[node] = np.inf
        places[node] = -1
    costs[0] = 0.0
    heap[0] = places[0] = 0
    size = 1
    while size > 0:
        node = heap[0]
        if node == leaves:
            break
        size -= 1
        if size > 0:
            heap[0] = heap[size]
            _sink(heap, places, costs, size)
        for e in range(node, leaves):
            length = ends[e] - blocks[node]
            if e > node and length > max_scan:
                break
            cost = costs[node] + seek + transfer * length
            if cost < costs[e + 1]:
                costs[e + 1] = cost
                before[e + 1] = node
                if places[e + 1] < 0:
                    heap[size] = e + 1
                    places[e + 1] = size
                    size += 1
                _rise(heap, places, costs, places[e + 1])
    node = leaves
    while node > 0:
        lasts[before[node]] = node - 1
        node = before[node]
    return _cut(lasts, firsts)
