//! Where the numbers of a simulation live: named, typed arrays that are allocated once and updated in place
