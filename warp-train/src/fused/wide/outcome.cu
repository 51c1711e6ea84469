// What came of a step.

// Keeps number `column` of row `row` of observations: floats, or, where layers on tensor cores read them, halves, P_KEPT a
// row, of which those beyond the last number stay zero.
__device__ inline void wide_keep_obs(float* obs, unsigned long long row, unsigned int column, float x) {
#if P_KEPT
    unsigned int half;
    asm("cvt.rn.satfinite." HALF_PAIR ".f32 %0, %1, %2;" : "=r"(half) : "f"(0.0f), "f"(x));
    ((unsigned short*)obs)[row * P_KEPT + column] = (unsigned short)half;
#else
    obs[row * P_WIDTH + column] = x;
#endif
}

// Keeps what came of step t for a row. Where a time limit cut an agent's episode, its last observation is kept in the
// row's next slot: slots are [P_SLOTS, rows, ...].
__device__ inline void wide_keep_outcome(const OutcomeArgs& a, const WidePlaces* places, unsigned int t,
                                         unsigned int row) {
    WidePlace place = wide_place(places, row);
    unsigned long long cell = (unsigned long long)t * a.rows + row;
    bool truncated = places->truncated[place.replica] != 0;
    bool left = place.group->agent_terminated && place.group->agent_terminated[place.row] != 0;
    a.rewards[cell] = place.group->reward[place.row];
    a.ended[cell] = places->terminated[place.replica] != 0 || truncated || left;
    a.truncated_values[cell] = 0.0f;
    if (P_SLOTS == 0) return;
    if (t == 0) {
        a.cut_count[row] = 0;
        for (int slot = 0; slot < P_SLOTS; ++slot) {
            a.cut_cell[(unsigned long long)slot * a.rows + row] = 0xffffffffu;
        }
    }
    if (!truncated || left || a.cut_count[row] >= P_SLOTS) return;
    unsigned long long slot = (unsigned long long)a.cut_count[row] * a.rows + row;
    a.cut_count[row] += 1;
    a.cut_cell[slot] = (unsigned int)cell;
    const float* last = place.group->final_obs + place.row * P_WIDTH;
    for (int j = 0; j < P_WIDTH; ++j) {
        wide_keep_obs(a.cut_obs, slot, j, wide_normalised(last[j], j, a.factors));
    }
}
