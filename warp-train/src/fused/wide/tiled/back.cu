// y = (x w) slope(y) for a layer's outputs' gradients x and its inputs y: gradients in place of activations. Of
// normalised layers without slopes.
extern "C" __global__ __launch_bounds__(U_THREADS, 1) void wide_tiled_back(const TiledLayerArgs a) {
    u_layer<256, 3, U_BACK>(a);
}
extern "C" __global__ __launch_bounds__(U_THREADS, 1) void wide_tiled_back_narrow(const TiledLayerArgs a) {
    u_layer<128, 5, U_BACK>(a);
}
