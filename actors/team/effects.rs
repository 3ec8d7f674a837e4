//! Effects of a turn: its session does what the turn wants, in order.
//!
//! What must be durable before the rest is committed first, and the rest waits for that. Foreign code runs on tasks of its
//! own, and what comes back finds the session by its key, if it is still there.

use tokio::time::Instant;

use super::{
    SessionContext,
    lease::Cancellation,
    outcome::After,
    session::Session,
    turn::{Input, Stop, Want},
    watchdog::Alarm,
};
use crate::store::records::Writes;

impl Session {
    /// Begins, or ends at once if its task was cancelled before.
    pub(super) fn start(&mut self, cancelled: Option<Cancellation>, ctx: &mut SessionContext<'_>) {
        self.arm_watch(ctx);
        self.expect_joined_acks(ctx);
        let is_new = self.leased.begins();
        let begins = |want: &mut Want| matches!(want, Want::Record(_, frames) if is_new && frames.is_empty());
        if let Some(Want::Record(facts, _)) = self.wants.pop_front_if(begins) {
            self.begin(facts);
        }
        match cancelled {
            Some(Cancellation { reason }) => self.cancel(None, reason, ctx),
            None => self.perform(ctx),
        }
    }

    /// Tells the turn something and does what it then wants.
    pub(super) fn hear(&mut self, input: Input, ctx: &mut SessionContext<'_>) {
        self.watchdog.sign();
        if matches!(input, Input::Stop(..)) && !self.turn.ended {
            // What was wanted but not begun is not wanted any more; what happened is still kept.
            self.wants.retain(|want| !want.begins());
        }
        self.wants.extend(self.turn.on(input));
        self.perform(ctx);
    }

    /// Does what the turn wants, in order, up to the next thing that must be durable first.
    pub(super) fn perform(&mut self, ctx: &mut SessionContext<'_>) {
        while !self.over && !self.committing && !self.holds_its_end() {
            if self.retiring {
                // Nothing begins any more; what runs is waited for and recorded.
                while self.wants.pop_front_if(|want| want.begins()).is_some() {}
                if self.wants.is_empty() && self.model.is_none() && self.tools.is_empty() {
                    self.leave();
                    return self.cx.give_back(self.leased.task.clone());
                }
            }
            let Some(want) = self.wants.pop_front() else { return };
            match want {
                Want::Record(facts, frames) => {
                    self.record(facts, frames, Writes::new(), After::go_on(), ctx);
                }
                Want::Stash(stows) => self.stash(stows, ctx),
                Want::Hold(facts, frames, held) => self.hold(facts, frames, held, ctx),
                Want::Mark(approval, execution) => self.mark(&approval, execution, ctx),
                Want::Park(facts, frames, wait) => self.park(facts, frames, wait, ctx),
                Want::CallModel => self.call_model(ctx),
                Want::Summarise(request) => self.summarise(request, ctx),
                Want::CallTool { call, rerun } => self.call_tool(call, rerun, ctx),
                Want::StopCalls => self.stop_calls(ctx),
                Want::End(facts, end) => self.end(facts, end, ctx),
                Want::Suspend(facts, frames, pause) => {
                    self.record(facts, frames, Writes::new(), After::Returned(pause), ctx);
                }
            }
        }
    }

    /// The end of a stopped turn waits until its tools have stopped too.
    fn holds_its_end(&self) -> bool {
        let ends = |want: &Want| matches!(want, Want::End(..) | Want::Suspend(..) | Want::Park(..));
        self.stopping && !self.tools.is_empty() && self.wants.front().is_some_and(ends)
    }

    /// Leaves the lane, with the messages that joined.
    pub(super) fn leave(&mut self) {
        self.over = true;
        self.cx.give_back_joined(std::mem::take(&mut self.joined));
    }

    /// The process is stopping: the turn goes on to its next commit point and gives its task back.
    pub(super) fn retire(&mut self, ctx: &mut SessionContext<'_>) {
        self.retiring = true;
        self.perform(ctx);
    }

    pub(super) fn stop(&mut self, stop: Stop, ctx: &mut SessionContext<'_>) {
        let said = std::mem::take(&mut self.text.said);
        self.hear(Input::Stop(stop, said), ctx);
    }

    /// Looks at the clock: the deadline, signs of life, the ack.
    fn watch(&mut self, ctx: &mut SessionContext<'_>) {
        match self.watchdog.alarm(self.turn.longest_call()) {
            Some(Alarm::Deadline) => return self.stop(Stop::Deadline, ctx),
            Some(Alarm::Stalled(silent)) => {
                self.tell_of_stall(silent, "it was stopped, and is tried again if it may be.");
                return self.stop(Stop::Stalled, ctx);
            }
            Some(Alarm::Warning(silent, rest)) => {
                self.tell_of_stall(silent, &format!("a warning. In {rest} s it is stopped."));
            }
            None => {}
        }
        if self.ack_due().is_some_and(|due| due <= Instant::now()) {
            self.acknowledge(ctx);
        }
        self.arm_watch(ctx);
    }

    fn arm_watch(&mut self, ctx: &mut SessionContext<'_>) {
        let next = self.watchdog.next(self.turn.longest_call());
        let next = self.ack_due().map_or(next, |due| next.min(due));
        let pause = next.saturating_duration_since(Instant::now());
        self.timers.watch = Some(self.later(pause, ctx, Self::watch));
    }

    /// When its message must be acknowledged. A turn that has decided its end sends its ack with it.
    fn ack_due(&self) -> Option<Instant> {
        (self.buffer.awaits_ack() && !self.turn.ended).then_some(self.ack_due)
    }

    fn tell_of_stall(&self, silent: u64, done: &str) {
        let done = format!("Nothing moved in a turn for {silent} s: {done}");
        self.cx.tell_of_stall(&self.leased.task.id, done);
    }
}
