// Kernels that begin while the one before them runs (`begin_early`): they do first what does not depend on it.
#pragma once

// Lets the next kernel begin. Where this is asked before `wait_for_previous_kernel`, those that that one waits for may still
// run, too.
__device__ inline void allow_next_kernel() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Waits for the end of the kernel before this one, and thereby of all that it waited for itself.
__device__ inline void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
