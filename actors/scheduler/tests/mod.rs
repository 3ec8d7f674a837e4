//! Tests of the scheduler over doubles of its ports.
