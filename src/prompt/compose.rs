//! Composes the system prompt of a turn from rules, team and conversation.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use dashmap::DashMap;
use hivewright_actors::{briefing::Line, engine::SystemPrompt, ids::TeamName, task::TopicRef};
use sha2::{Digest, Sha256};
use tokio::task::spawn_blocking;

use super::{
    folder::{Links, RuleFiles},
    parts,
    rules::{self, Tier},
};
use crate::settings::home::Home;

/// The turn to compose for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Whose turn.
    pub team: TeamName,
    /// What the team is for, from its file.
    pub description: String,
    /// The built-in tools, in the order in which they are to be shown.
    pub builtins: Vec<Availability>,
    /// What the team remembers; empty if nothing.
    pub memory: Arc<str>,
    /// What the turn is about.
    pub topic: Option<TopicRef>,
    /// What was said before, oldest first, without the message being answered.
    pub conversation: Vec<Line>,
}

/// Whether the team has a built-in tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// The tool.
    pub tool: String,
    /// It is there.
    pub enabled: bool,
}

/// A prompt, ready for an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composed {
    /// What the model is told.
    pub system: Arc<SystemPrompt>,
    /// Names the rules and the role, not the conversation: it stays the same from turn to turn.
    pub prompt_hash: String,
    /// Rule files that were left out, and why.
    pub warnings: Vec<String>,
}

/// The prompt was not finished: the process is stopping, or composing it panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("composing the prompt was cut off")]
pub struct CutOff;

/// Composes prompts, and keeps what it read. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Prompts(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    home: Home,
    system: Tier,
    files: RuleFiles,
    /// The last static prefix, so that all turns share one.
    shared: Mutex<Arc<str>>,
    /// What was last told to each team before its turn's own part.
    told: DashMap<TeamName, Arc<Told>>,
}

/// The parts of a prompt that stay the same until a file changes, with what they were made from.
#[derive(Debug)]
struct Told {
    tiers: [Tier; 3],
    description: String,
    builtins: Vec<Availability>,
    shared: Arc<str>,
    team: String,
    hash: String,
}

impl Prompts {
    /// Prompts from the rules of this home.
    pub fn new(home: Home) -> Self {
        Self(Arc::new(Inner {
            home,
            system: rules::system(),
            files: RuleFiles::default(),
            shared: Mutex::new("".into()),
            told: DashMap::new(),
        }))
    }

    /// Composes one. Files are read off the calling thread; unchanged ones are only looked at.
    pub async fn compose(&self, request: Request) -> Result<Composed, CutOff> {
        let this = self.clone();
        spawn_blocking(move || this.compose_now(&request))
            .await
            .map_err(|_| CutOff)
    }

    /// The same, on this thread. Blocks.
    pub fn compose_now(&self, request: &Request) -> Composed {
        self.0.compose(request)
    }
}

impl Inner {
    fn compose(&self, request: &Request) -> Composed {
        let workspace = self.home.team(request.team.as_str());
        let tiers = [
            self.files.tier(self.home.data(), "rules", Links::Followed),
            self.files.tier(&workspace, "org-rules", Links::Refused),
            self.files.tier(&workspace, "team-rules", Links::Refused),
        ];
        let warnings = [&self.system].into_iter().chain(&tiers);
        let warnings = warnings.flat_map(|tier| tier.warnings.clone()).collect();
        let told = self.told(request, &workspace, tiers);
        let system = SystemPrompt {
            shared: told.shared.clone(),
            team: told.team.clone(),
            turn: parts::join([
                // Part 8 comes ready: it is laid out when memory changes, not in each turn.
                request.memory.to_string(),
                parts::topic(request.topic.as_ref()),
                parts::conversation(&request.conversation),
            ]),
        };
        Composed {
            system: Arc::new(system),
            prompt_hash: told.hash.clone(),
            warnings,
        }
    }

    /// What a team is told in every turn. Put together again only if something of it changed.
    fn told(&self, request: &Request, workspace: &Path, tiers: [Tier; 3]) -> Arc<Told> {
        let Request {
            team,
            description,
            builtins,
            ..
        } = request;
        let known = self.told.get(team).map(|known| known.clone());
        if let Some(known) = known
            && known.tiers == tiers
            && known.description == *description
            && known.builtins == *builtins
        {
            return known;
        }
        let [organisation, lineage, own] = &tiers;
        let shared = self.share(parts::shared(&self.system, organisation));
        let role = parts::role(team, [&self.system, organisation], lineage, own);
        let text = parts::join([
            parts::identity(team, description, workspace),
            parts::availability(builtins),
            role,
        ]);
        let told = Arc::new(Told {
            hash: hash(&shared, &text),
            shared,
            team: text,
            description: description.clone(),
            builtins: builtins.clone(),
            tiers,
        });
        self.told.insert(team.clone(), told.clone());
        told
    }

    fn share(&self, text: String) -> Arc<str> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if **shared != *text {
            *shared = text.into();
        }
        shared.clone()
    }
}

/// The first 16 hex digits of the SHA-256 of shared and team part.
fn hash(shared: &str, team: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(shared.as_bytes());
    hasher.update([0]);
    hasher.update(team.as_bytes());
    let digest = hasher.finalize();
    digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
