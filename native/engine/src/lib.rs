//! Request phases: server and location choice, handlers, filters.
