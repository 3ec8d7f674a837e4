//! The native engine: one model call per step, retried and handed on as the failure asks for.

use std::{borrow::Cow, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use hivewright_actors::{
    engine::{
        Block, Engine, EngineEvent, EngineFailure, EventSink, Message, Paid, StepReply,
        StepRequest, plain_id,
    },
    task::outcome::Code,
    usage::Usage,
};

use crate::{
    engines::{
        pictures,
        scrubbed_sink::{ScrubbedSink, clean_blocks},
    },
    files::FileStore,
    providers::{
        self, Answer, Ask, Pictures, call_ids,
        fault::{Fault, Remedy},
    },
    settings::providers::{Pricing, Profile},
    vault::scrubbers::Scrubbers,
};

mod fair_queue;
pub(super) mod gate;
pub mod retry;
pub(super) mod state;

use retry::RetryPolicy;
use state::ProfileState;

/// A model that pauses more often than this within a step is not coming to an end.
const MOST_PAUSES: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) profile: Arc<Profile>,
    pub(super) model: String,
    pub(super) max_output_tokens: u32,
    pub(super) state: Arc<ProfileState>,
}

impl Link {
    /// What a fault is to the turn, after so many tries. Not yet scrubbed.
    pub(super) fn failure(&self, fault: &Fault, tries: u32) -> EngineFailure {
        EngineFailure {
            code: fault.code,
            message: self.describe(fault, tries),
            retry_after: fault.retry_after(),
            answered: fault.answered,
        }
    }

    /// Waits for the end of the profile's rate limit, if that is near. The error is one that is not.
    pub(super) async fn wait_out_limit(&self, retry: &RetryPolicy) -> Result<(), Fault> {
        let Some(rest) = self.state.limited_for() else {
            return Ok(());
        };
        if rest > retry.retry_after_cap {
            let message = "the provider wanted fewer requests, and nobody asks it before the time";
            return Err(Fault::new(Code::RateLimited, Remedy::Retry(Some(rest)), message));
        }
        tokio::time::sleep(rest).await;
        Ok(())
    }

    /// The pause before a failed request is made again; none if it is not. What the provider says about its rate
    /// holds for all who ask it.
    pub(super) fn again(
        &self,
        retry: &RetryPolicy,
        retries: u32,
        fault: &Fault,
    ) -> Option<Duration> {
        let pause = retry.again(retries, fault.remedy);
        // Without a word of when it ends, others may be let through.
        if let (Code::RateLimited, Some(told)) = (fault.code, fault.retry_after()) {
            self.state.limit(pause.unwrap_or(told));
        }
        pause
    }

    /// What a call has cost. One that cost nothing says nothing about prices.
    pub(super) fn paid(&self, mut usage: Usage) -> Option<Paid> {
        if usage == Usage::default() {
            return None;
        }
        price(&mut usage, self.profile.pricing.as_ref());
        Some(Paid { profile: self.profile.name.clone(), model: self.model.clone(), usage })
    }

    pub(super) fn describe(&self, fault: &Fault, tries: u32) -> String {
        let (name, message) = (&self.profile.name, &fault.message);
        match tries {
            1 => format!("profile `{name}`: {message}"),
            _ => format!("profile `{name}`, tried {tries} times: {message}"),
        }
    }
}

/// Asks the first profile of its chain, and the others if that fails.
#[derive(Clone)]
pub(super) struct NativeEngine {
    http: reqwest::Client,
    retry: Arc<RetryPolicy>,
    links: Arc<[Link]>,
    scrubbers: Arc<Scrubbers>,
    /// Where pictures are.
    files: Option<FileStore>,
}

impl NativeEngine {
    pub(super) fn new(
        http: reqwest::Client,
        retry: Arc<RetryPolicy>,
        links: Vec<Link>,
        scrubbers: Scrubbers,
        files: Option<FileStore>,
    ) -> Self {
        Self { http, retry, links: links.into(), scrubbers: Arc::new(scrubbers), files }
    }
}

impl Engine for NativeEngine {
    fn run(
        &self,
        request: StepRequest,
        events: EventSink,
    ) -> BoxFuture<'static, Result<StepReply, EngineFailure>> {
        let engine = self.clone();
        async move {
            let cancel = request.cancel.clone();
            let sink = ScrubbedSink::new(events, engine.scrubbers.of(&request.team));
            let step = Step { sink, engine: &engine, request: &request };
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(EngineFailure::new(
                    Code::Cancelled,
                    "the model call was stopped",
                )),
                result = step.run() => result,
            }
        }
        .boxed()
    }
}

struct Step<'a> {
    engine: &'a NativeEngine,
    request: &'a StepRequest,
    sink: ScrubbedSink,
}

impl Step<'_> {
    async fn run(mut self) -> Result<StepReply, EngineFailure> {
        let mut failures: Vec<EngineFailure> = Vec::new();
        for link in self.engine.links.iter() {
            if let Some(failure) = failures.last() {
                self.sink.reset();
                let notice =
                    format!("profile `{}` takes over: {}", link.profile.name, failure.message);
                self.sink.say(EngineEvent::Fallback(notice));
            }
            match self.try_profile(link).await {
                Ok(answer) => return Ok(self.reply(link, answer)),
                Err((fault, tries)) => {
                    let failure = link.failure(&fault, tries);
                    let message = self.sink.scrub(&failure.message);
                    failures.push(EngineFailure { message, ..failure });
                    if fault.remedy == Remedy::None {
                        break;
                    }
                }
            }
        }
        self.sink.end();
        Err(verdict(failures))
    }

    /// Asks one profile until it answers or its retries are used up.
    async fn try_profile(&mut self, link: &Link) -> Result<Answer, (Fault, u32)> {
        let mut retries = 0;
        loop {
            let left_out = link.state.left_out();
            if let Err(limited) = link.wait_out_limit(&self.engine.retry).await {
                return Err((limited, retries + 1));
            }
            let fault = match self.ask(link).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            if let Some(lost) = link.paid(fault.usage) {
                self.sink.say(EngineEvent::Spent(lost));
            }
            let pause = match fault.remedy {
                Remedy::LeaveOut(field) if !left_out.has(field) => {
                    link.state.leave_out(field);
                    None
                }
                // It was left out already, so leaving it out does not help.
                Remedy::LeaveOut(_) => {
                    let remedy = Remedy::None;
                    return Err((Fault { remedy, ..fault }, retries + 1));
                }
                _ => match link.again(&self.engine.retry, retries, &fault) {
                    Some(pause) => {
                        retries += 1;
                        Some(pause)
                    }
                    None => return Err((fault, retries + 1)),
                },
            };
            self.sink.reset();
            self.sink.say(EngineEvent::Retry(link.describe(&fault, 1)));
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Asks once, and goes on where the model only paused.
    async fn ask(&mut self, link: &Link) -> Result<Answer, Fault> {
        let sink = &mut self.sink;
        let in_line = || sink.say(EngineEvent::InLine);
        let _permit = link.state.gate.enter_telling(&self.request.team, in_line).await;
        let pictures = match &self.engine.files {
            Some(files) if link.profile.pictures => pictures::load(files, self.request).await,
            _ => Pictures::default(),
        };
        let mut messages = Cow::Borrowed(self.request.messages.as_slice());
        let mut said: Vec<Block> = Vec::new();
        let mut usage = Usage::default();
        for _ in 0..MOST_PAUSES {
            let ask = Ask {
                profile: &link.profile,
                model: &link.model,
                max_output_tokens: link.max_output_tokens,
                step: self.request.step,
                system: &self.request.system,
                tools: &self.request.tools,
                earlier: &self.request.earlier,
                messages: &messages,
                pictures: &pictures,
                thinking: self.request.thinking,
                without: link.state.left_out(),
            };
            let sink = &mut self.sink;
            let answer = providers::ask(&self.engine.http, ask, &mut |event| sink.say(event))
                .await
                .map_err(|mut fault| {
                    fault.usage += usage;
                    fault
                })?;
            usage += answer.usage;
            if answer.paused {
                messages.to_mut().push(Message::Assistant(answer.blocks.clone()));
            }
            said.extend(answer.blocks);
            if !answer.paused {
                return Ok(Answer { blocks: said, usage, ..answer });
            }
        }
        Err(Fault::new(
            Code::ProviderError,
            Remedy::None,
            format!("the model paused {MOST_PAUSES} times without an end"),
        )
        .with_usage(usage))
    }

    fn reply(mut self, link: &Link, answer: Answer) -> StepReply {
        self.sink.end();
        let mut blocks = clean_blocks(answer.blocks, &self.sink.scrubber);
        name_calls(&mut blocks, self.request);
        StepReply {
            blocks,
            usage: link.paid(answer.usage).map_or(answer.usage, |paid| paid.usage),
            stop_reason: answer.stop_reason,
            truncated: answer.truncated,
            profile: link.profile.name.clone(),
            model: link.model.clone(),
        }
    }
}

/// Gives calls another id whose own the conversation holds already: some servers count them anew in each answer, and
/// none takes a request that holds one twice.
fn name_calls(blocks: &mut [Block], request: &StepRequest) {
    let calls = blocks.iter_mut().filter_map(|block| match block {
        Block::Call(call) => Some(call),
        Block::Text { .. } | Block::Thinking { .. } => None,
    });
    let mut calls = calls.peekable();
    if calls.peek().is_none() {
        return;
    }
    let earlier = request.earlier.iter().flat_map(|turn| turn.iter());
    let mut taken = call_ids(earlier.chain(request.messages.iter()));
    for call in calls {
        // As the conversation will hold it.
        call.bound_id();
        let own = call.id.clone();
        let mut number = 1;
        while !taken.insert(plain_id(call.id.as_str())) {
            number += 1;
            call.id = format!("{own}_{number}").into();
        }
    }
}

/// One failure for those of all profiles. A key that is not taken at the end of the chain does not
/// hide that a profile before it may answer later.
pub(super) fn verdict(failures: Vec<EngineFailure>) -> EngineFailure {
    let last = failures.last().map_or(Code::NoProvider, |failure| failure.code);
    let code = match last {
        Code::ProviderAuth => failures
            .iter()
            .rev()
            .map(|failure| failure.code)
            .find(|code| code.is_transient())
            .unwrap_or(last),
        _ => last,
    };
    let of_code = || failures.iter().filter(|failure| failure.code == code);
    let retry_after = of_code().filter_map(|failure| failure.retry_after).min();
    let answered = failures.iter().any(|failure| failure.answered);
    let messages: Vec<&str> = failures.iter().map(|failure| failure.message.as_str()).collect();
    EngineFailure { code, message: messages.join("; "), retry_after, answered }
}

/// Puts the price to the figures.
fn price(usage: &mut Usage, pricing: Option<&Pricing>) {
    usage.cost_usd = pricing.map(|pricing| {
        let parts = [
            (usage.input, pricing.input),
            (usage.output, pricing.output),
            (usage.cache_read, pricing.cache_read),
            (usage.cache_write, pricing.cache_write),
        ];
        let sum: f64 = parts.iter().map(|(tokens, price)| *tokens as f64 * price).sum();
        sum / 1_000_000.0
    });
}

#[cfg(test)]
mod tests {
    use hivewright_actors::{
        engine::{FixedMessages, Unbooked},
        shared_list::SharedList,
        tool::{Args, ToolCall},
    };
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn failure(code: Code, message: &str) -> EngineFailure {
        EngineFailure::new(code, message)
    }

    /// SE-116: a server that counts calls anew in each answer; one name for a provider may be two for another.
    #[test]
    fn a_call_id_that_was_used_before_is_made_unique() {
        let call = |id: &str| {
            let args = Args::Json(serde_json::json!({}));
            Block::Call(ToolCall { id: id.into(), name: "read".into(), args })
        };
        let before = |id: &str| Message::Assistant(vec![call(id)]);
        let request = StepRequest {
            team: "main".into(),
            turn: "turn-1".into(),
            step: 2,
            task: None,
            system: Arc::default(),
            tools: Arc::default(),
            earlier: SharedList::from_iter([Arc::new(FixedMessages::new(vec![
                before("call-1"),
                before("b_1"),
            ]))]),
            messages: Arc::new(vec![before("call-1_2")]),
            thinking: None,
            unbooked: Unbooked::default(),
            cancel: CancellationToken::new(),
        };
        let mut blocks = vec![call("call-1"), call("b:1"), call("new"), call("new")];

        name_calls(&mut blocks, &request);

        assert_eq!(blocks, [call("call-1_3"), call("b:1_2"), call("new"), call("new_2")]);
    }

    #[test]
    fn a_refused_key_does_not_hide_a_failure_that_passes() {
        let verdict = verdict(vec![
            failure(Code::Overloaded, "`a` is busy"),
            failure(Code::ProviderAuth, "`b` has no key"),
        ]);

        assert_eq!(verdict, failure(Code::Overloaded, "`a` is busy; `b` has no key"));
    }

    /// SE-129
    #[test]
    fn the_profile_that_is_there_first_is_waited_for() {
        let limited = |seconds| EngineFailure {
            retry_after: Some(Duration::from_secs(seconds)),
            ..failure(Code::RateLimited, "slow down")
        };

        let verdict = verdict(vec![limited(60), limited(20), limited(40)]);

        assert_eq!(verdict.retry_after, Some(Duration::from_secs(20)));
        assert!(!verdict.answered);
    }

    #[test]
    fn the_last_failure_decides_otherwise() {
        let verdict = verdict(vec![
            failure(Code::Overloaded, "`a` is busy"),
            failure(Code::ProviderError, "`b` says no"),
        ]);

        assert_eq!(verdict.code, Code::ProviderError);
    }

    /// SE-111, SE-139
    #[test]
    fn each_kind_of_token_has_its_price() {
        let mut usage = Usage {
            input: 1_000_000,
            output: 100_000,
            cache_read: 10_000,
            cache_write: 1_000,
            ..Usage::default()
        };

        price(
            &mut usage,
            Some(&Pricing { input: 3.0, output: 10.0, cache_read: 100.0, cache_write: 1000.0 }),
        );
        assert_eq!(usage.cost_usd, Some(6.0));

        price(&mut usage, None);
        assert_eq!(usage.cost_usd, None);
    }
}
