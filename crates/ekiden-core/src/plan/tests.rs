//! Small plans, whose whole course is written down; and random ones, beside an oracle.

mod courses;
mod random;
