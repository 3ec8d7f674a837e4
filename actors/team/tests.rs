//! A whole spine, from message to response.

mod approvals;
mod audit;
mod bounds;
mod compaction;
mod conversation;
mod crash;
mod delegation;
mod earlier;
mod failure;
mod first_word;
mod holding;
mod hooks;
mod life;
mod modes;
mod privacy;
mod stalls;
mod stop;
mod texts;
mod waiting;
mod watching;
