//! Hook events: the moments at which a plugin is asked or told.

use crate::words;

words! {
    /// A moment at which a plugin is asked or told.
    pub enum HookEvent {
        /// A tool is about to be called.
        ToolBefore = "tool.before",
        /// A tool was called.
        ToolAfter = "tool.after",
        /// A person's message has come.
        MessageInbound = "message.inbound",
        /// An answer is about to go out.
        MessageOutbound = "message.outbound",
        /// A turn begins.
        TurnStart = "turn.start",
        /// A turn has ended.
        TurnEnd = "turn.end",
        /// A conversation begins.
        SessionOpened = "session.opened",
        /// A conversation is over.
        SessionClosed = "session.closed",
        /// A team became active.
        TeamStarted = "team.started",
        /// A team is active no more.
        TeamStopped = "team.stopped",
        /// A trigger fired.
        ScheduleFired = "schedule.fired",
        /// A memory was saved.
        MemorySaved = "memory.saved",
        /// A plugin has an error.
        PluginError = "plugin.error",
    }
}

/// What a plugin's answer to an event does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookMode {
    /// It may refuse or change what is about to happen. No answer is a refusal.
    Veto,
    /// It may change a text. No answer leaves the text.
    Transform,
    /// Nothing: it is told, and nobody waits.
    Listener,
}

impl HookEvent {
    /// What an answer to it does.
    pub fn mode(self) -> HookMode {
        match self {
            Self::ToolBefore => HookMode::Veto,
            Self::MessageInbound | Self::MessageOutbound => HookMode::Transform,
            _ => HookMode::Listener,
        }
    }

    /// The event of a name, which may end in its version, `@v1`.
    pub fn named(name: &str) -> Option<Self> {
        name.strip_suffix("@v1").unwrap_or(name).parse().ok()
    }
}
