//! OpenAI's Chat Completions API, as OpenAI and compatible proxies speak it.

pub(super) mod reader;
pub(super) mod request;
