// The other of two blocks of a cluster that learn together: how each hears the other's numbers and how far its
// rollout is, and waits for it.
//
// With SPREAD; without it there is no other.
#pragma once
#include "gradient.cuh"

#if SPREAD
struct ClusterPeer {
    // Barriers of the memory: of the other's coming, and of its numbers, for two turns.
    unsigned long long came, told[2];
    u32 n_meetings;
    // Parts of rollouts: in the block that collects, those that are collected, and in the other those that it has been told
    // of.
    u32 parts;

    // The same place in the other block.
    static __device__ __forceinline__ u32 there(const void* here) {
        u32 address;
        asm volatile("{.reg .u32 other;\n mov.u32 other, %%cluster_ctarank;\n xor.b32 other, other, 1;\n"
                     " mapa.shared::cluster.u32 %0, %1, other;}"
                     : "=r"(address)
                     : "r"(shared_address(here)));
        return address;
    }
    static __device__ __forceinline__ void wait(const unsigned long long& barrier, u32 phase) {
        u32 done;
        do {
            asm volatile("{.reg .pred p;\n"
                         " mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                         " selp.u32 %0, 1, 0, p;}"
                         : "=r"(done)
                         : "r"(shared_address(&barrier)), "r"(phase)
                         : "memory");
        } while (!done);
    }

    static __device__ __forceinline__ void make(unsigned long long& barrier) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
    }

    // For all threads of both blocks, once.
    __device__ __forceinline__ void begin() {
        if (threadIdx.x == 0) {
            n_meetings = parts = 0u;
            make(came);
            make(told[0]);
            make(told[1]);
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        }
        asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                         : "memory");
    }

    // One thread of each block waits until both are here; all that its block's threads wrote before a
    // barrier ahead of this is known to the other.
    __device__ __forceinline__ void meet() {
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there(&came))
                     : "memory");
        wait(came, n_meetings++ & 1u);
    }

    // Tells the block how many parts there are; whoever hears it sees what a warp stored ahead of its __syncwarp() before this.
    __device__ __forceinline__ void publish(u32 n) {
        asm volatile("st.release.cta.shared::cta.u32 [%0], %1;" ::"r"(shared_address(&parts)), "r"(n) : "memory");
    }
    // Waits for so many and tells the other block. A thread that collects does not do so itself: a release to the whole
    // cluster would hold it up.
    __device__ __forceinline__ void relay(u32 n) const {
        u32 known;
        while (true) {
            asm volatile("ld.acquire.cta.shared::cta.u32 %0, [%1];" : "=r"(known) : "r"(shared_address(&parts)) : "memory");
            if (known >= n) break;
            // The warps that collect need the multiprocessor.
            __nanosleep(100);
        }
        asm volatile("st.release.cluster.shared::cluster.u32 [%0], %1;" ::"r"(there(&parts)), "r"(n) : "memory");
    }
    // Waits until the other block has told of so many.
    __device__ __forceinline__ void wait_for_parts(u32 n) const {
        u32 known;
        do {
            asm volatile("ld.acquire.cluster.shared::cta.u32 %0, [%1];"
                         : "=r"(known)
                         : "r"(shared_address(&parts))
                         : "memory");
        } while (known < n);
    }

    // Puts a number into the same place of the other block, there with its turn.
    __device__ __forceinline__ void tell(float& place, float x, u32 turn) {
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(
                         there(&place)),
                     "r"(__float_as_uint(x)), "r"(there(&told[turn & 1u]))
                     : "memory");
    }
    // One thread says how many numbers are to come in this turn; any may wait for them.
    __device__ __forceinline__ void expect(u32 turn, u32 numbers) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                         shared_address(&told[turn & 1u])),
                     "r"(numbers * 4u)
                     : "memory");
    }
    __device__ __forceinline__ void hear(u32 turn) const { wait(told[turn & 1u], turn >> 1 & 1u); }
};
#else
// There is none.
struct ClusterPeer {
    __device__ void begin() {}
    __device__ void meet() {}
    __device__ void tell(float&, float, u32) {}
    __device__ void expect(u32, u32) {}
    __device__ void hear(u32) const {}
    __device__ void publish(u32) {}
    __device__ void relay(u32) const {}
    __device__ void wait_for_parts(u32) const {}
};
#endif
