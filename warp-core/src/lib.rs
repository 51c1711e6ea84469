//! What a reinforcement-learning environment is: spaces, specs, the Env contract, maths and counter-based randomness
