//! The edges of Hivewright: binary, settings, engines, tools, channels, HTTP.

pub mod http;
