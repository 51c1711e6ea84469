// Waits for so many nanoseconds; one thread.
extern "C" __global__ void wait(const unsigned int* nanoseconds) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do {
        asm volatile("nanosleep.u32 500;");
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - begin < *nanoseconds);
}
