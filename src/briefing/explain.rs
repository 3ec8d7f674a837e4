//! What the operator's rules say to a call that nobody makes.

use hivewright_actors::{
    briefing::BriefError,
    clock::Timestamp,
    ids::TeamKey,
    policy::Subject,
    task::{Lane, Options, Task},
    tool::Caller,
};
use serde_json::Value;

use super::Turns;
use crate::tools::judge::Judgement;

impl Turns {
    /// Judges a call of a team. Looks at files, so it blocks. An error is in words for a person.
    pub fn explain(
        &self,
        team: &TeamKey,
        tool: &str,
        args: &Value,
        subject: &Subject,
    ) -> Result<Judgement, String> {
        let words = |error: BriefError| error.message;
        let kit = self.0.kit(&team.name).map_err(words)?;
        let options = Options::default();
        let part = self.0.part(&team.name, &kit, &options, false).map_err(words)?;
        let lane = Lane { team: team.name.clone(), topic: None };
        let nobody = String::new;
        let task = Task {
            generation: team.generation,
            ..Task::new("explain".into(), lane, nobody(), nobody(), Timestamp(0))
        };
        let judged = part.tools.explain(tool, args, subject, &Caller::of(&task));
        judged.map_err(|error| error.message)
    }
}
