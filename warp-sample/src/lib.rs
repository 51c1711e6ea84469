//! How actions are drawn: categorical, multi-discrete, masked and greedy samplers
