// y = activation(x w + b) of a hidden layer, and of tiles of fewer columns.
extern "C" __global__ __launch_bounds__(U_THREADS, 1) void wide_tiled_forward(const TiledLayerArgs a) {
    u_layer<256, 3, U_HIDDEN>(a);
}
extern "C" __global__ __launch_bounds__(U_THREADS, 1) void wide_tiled_forward_narrow(const TiledLayerArgs a) {
    u_layer<128, 5, U_HIDDEN>(a);
}
#if U_FEW
// The same of the last hidden layer, where a tower has 8 outputs at most: what every tile's columns give
// them, f32 [towers, tiles of columns, rows, 8], goes to `few_outs`.
extern "C" __global__ __launch_bounds__(U_THREADS, 1) void wide_tiled_last(const TiledLayerArgs a) {
    u_layer<256, 3, U_LAST>(a);
}
extern "C" __global__ __launch_bounds__(U_THREADS, 1) void wide_tiled_last_narrow(const TiledLayerArgs a) {
    u_layer<128, 5, U_LAST>(a);
}
#else
// outs = x w + b of the output layers.
extern "C" __global__ __launch_bounds__(U_THREADS, 2) void wide_tiled_outputs(const TiledLayerArgs a) {
    u_layer<64, 3, U_OUTPUTS>(a);
}
#endif
