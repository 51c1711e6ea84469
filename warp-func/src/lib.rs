//! How environments run: thousands of replicas stepped at once, and the registry of environments
