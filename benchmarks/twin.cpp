// The kernels once more, in C++: what a compiler makes of them when nothing stands in its way.
// K (longest draft length) and W (cost models) are set on the command line. Without contraction of a*b + c
// (-ffp-contract=off) every result equals that of the kernels bit for bit.

#include <cstdint>
#include <cstring>
#ifdef __AVX512VPOPCNTDQ__
#include <immintrin.h>
#endif

extern "C" void solve_one(const double* __restrict survival, const double* __restrict unique,
                          const double* __restrict context_len, int64_t N, const double* base_, const double* alpha_,
                          const double* context_, double* __restrict marginal, int16_t* __restrict draft_length) {
    double base[K + 1], alpha[K + 1], context[K + 1];
    std::memcpy(base, base_, sizeof base);
    std::memcpy(alpha, alpha_, sizeof alpha);
    std::memcpy(context, context_, sizeof context);
    double d[K] = {};  // d(t + 1) … d(t + K), newest first
    for (int64_t t = N - 1; t >= 0; --t) {
        const double* S = survival + t * K;
        const double* U = unique + t * (K + 1);
        const double L = context_len[t];
        double g = base[K] + alpha[K] * U[K] + context[K] * L;
        int k = K;
        for (int j = K - 1; j >= 0; --j) {
            const double longer = g - S[j] * d[j];
            const double here = base[j] + alpha[j] * U[j] + context[j] * L;
            const bool on = longer < here;
            k = on ? k : j;
            g = on ? longer : here;
        }
        for (int j = K - 1; j > 0; --j) d[j] = d[j - 1];
        d[0] = g;
        marginal[t] = g;
        draft_length[t] = static_cast<int16_t>(k);
    }
}

// One vector of models at a time: g and k stay in registers over all draft lengths.
constexpr int LANE = 8;
typedef double Lane __attribute__((vector_size(LANE * sizeof(double))));
typedef int64_t Mask __attribute__((vector_size(LANE * sizeof(int64_t))));
static_assert(W % LANE == 0, "whole vectors of models");

// cost: (K + 1, 3, W); marginal: (N + K, W), the last K rows zero; both begin on a cache line.
extern "C" void solve_lanes(const double* __restrict survival, const double* __restrict unique,
                            const double* __restrict context_len, int64_t N, const double* __restrict cost_,
                            double* marginal_, int16_t* __restrict draft_length) {
    constexpr int V = W / LANE;
    const Lane* cost = reinterpret_cast<const Lane*>(cost_);
    Lane* marginal = reinterpret_cast<Lane*>(marginal_);
    for (int64_t t = N - 1; t >= 0; --t) {
        const double* S = survival + t * K;
        const double* U = unique + t * (K + 1);
        const double L = context_len[t];
        for (int v = 0; v < V; ++v) {
            const Lane* x = cost + K * 3 * V + v;
            Lane g = x[0] + x[V] * U[K] + x[2 * V] * L;
            Mask k = Mask{} + K;
            for (int j = K - 1; j >= 0; --j) {
                x = cost + j * 3 * V + v;
                const Lane longer = g - S[j] * marginal[(t + 1 + j) * V + v];
                const Lane here = x[0] + x[V] * U[j] + x[2 * V] * L;
                const Mask on = longer < here;
                k = on ? k : Mask{} + j;
                g = on ? longer : here;
            }
            marginal[t * V + v] = g;
            for (int w = 0; w < LANE; ++w) draft_length[t * W + v * LANE + w] = static_cast<int16_t>(k[w]);
        }
    }
}

typedef uint64_t Words __attribute__((vector_size(LANE * sizeof(uint64_t))));

static inline Words ones(Words x) {
#ifdef __AVX512VPOPCNTDQ__
    return reinterpret_cast<Words>(_mm512_popcnt_epi64(reinterpret_cast<__m512i>(x)));
#else
    x = x - ((x >> 1) & 0x5555555555555555);
    x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333);
    return ((x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F) * 0x0101010101010101 >> 56;
#endif
}

// Ids of LANE layers as vectors, one a slot; those past the last layer name no expert.
template <class Id, int TOP_K>
static inline void read_slots(const Id* ids, int64_t layers, Words* slots) {
    constexpr int BITS = 8 * sizeof(Id), HELD = 64 / BITS;  // ids in a word
    for (int first = 0; first < TOP_K; first += HELD) {
        const int held = TOP_K - first < HELD ? TOP_K - first : HELD;
        Words raw = {};
        for (int l = 0; l < LANE && l < layers; ++l) {
            uint64_t word = 0;
            std::memcpy(&word, ids + l * TOP_K + first, held * sizeof(Id));
            raw[l] = word;
        }
        for (int h = 0; h < held; ++h) slots[first + h] = (raw >> (BITS * h)) & ((uint64_t(1) << BITS) - 1);
    }
    for (int64_t l = layers; l < LANE; ++l)
        for (int slot = 0; slot < TOP_K; ++slot) slots[slot][l] = ~uint64_t(0);
}

// masks: (K + 1, words * lanes), lanes = layers rounded up to whole vectors.
template <class Id, int TOP_K>
static void count_new(const Id* experts, const int64_t* offsets, int64_t generations, int64_t layers, int64_t words,
                      int64_t lanes, uint64_t* masks_, uint16_t* __restrict out) {
    const int64_t V = lanes / LANE, stride = words * V;  // in vectors
    Words* masks = reinterpret_cast<Words*>(masks_);
    for (int64_t n = 0; n < generations; ++n) {
        for (int64_t i = offsets[n]; i < offsets[n + 1]; ++i) {
            const int64_t row = i - offsets[n];
            const Id* ids = experts + i * layers * TOP_K;
            Words* mask = masks + row % (K + 1) * stride;
            if (words <= 4) {
                for (int64_t v = 0; v < V; ++v) {
                    Words slots[TOP_K];
                    read_slots<Id, TOP_K>(ids + v * LANE * TOP_K, layers - v * LANE, slots);
                    for (int64_t w = 0; w < words; ++w) {
                        Words bits = {};
                        for (int slot = 0; slot < TOP_K; ++slot) {
                            const Words e = slots[slot] - uint64_t(64 * w);
                            bits |= Words(e < 64) & (Words{} + 1 << (e & 63));
                        }
                        mask[w * V + v] = bits;
                    }
                }
            } else {  // many words: setting single bits takes fewer steps
                uint64_t* bits = reinterpret_cast<uint64_t*>(mask);
                std::memset(bits, 0, stride * sizeof(Words));
                for (int64_t layer = 0; layer < layers; ++layer)
                    for (int slot = 0; slot < TOP_K; ++slot) {
                        const uint64_t e = ids[layer * TOP_K + slot];
                        bits[(e >> 6) * lanes + layer] |= uint64_t(1) << (e & 63);
                    }
            }
            const int64_t deepest = row < K ? row : K;
            const Words* earlier[K + 1];
            for (int64_t j = 0; j <= K; ++j) earlier[j] = masks + (row + K + 1 - j) % (K + 1) * stride;
            Words count[K + 1] = {};
            for (int64_t x = 0; x < stride; ++x) {
                Words left = mask[x];
                count[0] += ones(left);
                for (int j = 1; j <= K; ++j) {  // all K, so that the counts stay in registers
                    left &= ~earlier[j][x];
                    count[j] += ones(left);
                }
            }
            for (int j = 0; j <= K; ++j) {
                uint64_t total = 0;
                for (int l = 0; l < LANE; ++l) total += count[j][l];
                out[i * (K + 1) + j] = j <= deepest ? static_cast<uint16_t>(total) : 0;
            }
        }
    }
}

extern "C" void new_experts_8(const uint8_t* experts, const int64_t* offsets, int64_t generations, int64_t layers,
                              int64_t words, int64_t lanes, uint64_t* masks, uint16_t* out) {
    count_new<uint8_t, 8>(experts, offsets, generations, layers, words, lanes, masks, out);
}

extern "C" void new_experts_10(const uint16_t* experts, const int64_t* offsets, int64_t generations, int64_t layers,
                               int64_t words, int64_t lanes, uint64_t* masks, uint16_t* out) {
    count_new<uint16_t, 10>(experts, offsets, generations, layers, words, lanes, masks, out);
}

// Masks of the experts that windows touch; layers come in whole vectors.
extern "C" void window_masks_8(const uint8_t* experts, int64_t count, int64_t rows, int64_t layers, int64_t words,
                               uint64_t* masks_) {
    const int64_t V = layers / LANE;
    Words* mask = reinterpret_cast<Words*>(masks_);
    for (int64_t n = 0; n < count; ++n, mask += words * V) {
        for (int64_t v = 0; v < V; ++v)
            for (int64_t w = 0; w < words; ++w) mask[w * V + v] = Words{};
        for (int64_t r = 0; r < rows; ++r) {
            const uint8_t* ids = experts + (n * rows + r) * layers * 8;
            for (int64_t v = 0; v < V; ++v) {
                Words slots[8];
                read_slots<uint8_t, 8>(ids + v * LANE * 8, layers - v * LANE, slots);
                for (int64_t w = 0; w < words; ++w) {
                    Words bits = {};
                    for (int slot = 0; slot < 8; ++slot) {
                        const Words e = slots[slot] - uint64_t(64 * w);
                        bits |= Words(e < 64) & (Words{} + 1 << (e & 63));
                    }
                    mask[w * V + v] |= bits;
                }
            }
        }
    }
}

// Unions over windows that join a batch one after the other, with all of them and without each group; the counts keep
// their vectors until a window has joined every union. `width` words of masks a window, in whole vectors.
extern "C" void batch_unions(const uint64_t* masks_, int64_t width, const int32_t* paths, int64_t count, int64_t length,
                             const int32_t* group, int64_t variants, uint64_t* joined_, int64_t* sums,
                             int64_t* reached) {
    const int64_t V = width / LANE;
    std::memset(sums, 0, variants * length * sizeof(int64_t));
    std::memset(reached, 0, variants * length * sizeof(int64_t));
    const Words* masks = reinterpret_cast<const Words*>(masks_);
    Words* joined = reinterpret_cast<Words*>(joined_);
    int64_t* size = new int64_t[variants];
    for (int64_t s = 0; s < count; ++s) {
        std::memset(joined_, 0, variants * V * sizeof(Words));
        std::memset(size, 0, variants * sizeof(int64_t));
        for (int64_t step = 0; step < length; ++step) {
            const int64_t w = paths[s * length + step];
            const Words* mask = masks + w * V;
            for (int64_t v = 0; v < variants; ++v) {
                if (v == group[w] + 1) continue;
                Words* of = joined + v * V;
                Words held = {};
                for (int64_t x = 0; x < V; ++x) {
                    const Words bits = of[x] | mask[x];
                    of[x] = bits;
                    held += ones(bits);
                }
                uint64_t total = 0;
                for (int l = 0; l < LANE; ++l) total += held[l];
                sums[v * length + size[v]] += static_cast<int64_t>(total);
                reached[v * length + size[v]] += 1;
                ++size[v];
            }
        }
    }
    delete[] size;
}

// Positions in the stack of an LRU cache; `tree` and `last` are zero: (uses + 1) and (blocks).
extern "C" void stack_positions(const int32_t* __restrict block, const int64_t* __restrict first,
                                const int64_t* __restrict request, const int64_t* __restrict blocks,
                                const uint8_t* __restrict looks, int64_t events, int64_t uses,
                                int64_t* __restrict tree, int64_t* __restrict last, int64_t* __restrict position) {
    int64_t time = 0, held = 0;
    for (int64_t e = 0; e < events; ++e) {
        const int64_t start = first[request[e]], end = start + blocks[e];
        if (looks[e]) {
            for (int64_t i = start; i < end; ++i) {
                int64_t older = 0;
                for (int64_t at = last[block[i]] - 1; at > 0; at -= at & -at) older += tree[at];
                position[i] = last[block[i]] == 0 ? 0 : held - older;
            }
        } else {
            for (int64_t i = end - 1; i >= start; --i) {
                if (last[block[i]] == 0) {
                    ++held;
                } else {
                    for (int64_t at = last[block[i]]; at <= uses; at += at & -at) --tree[at];
                }
                last[block[i]] = ++time;
                for (int64_t at = time; at <= uses; at += at & -at) ++tree[at];
            }
        }
    }
}
