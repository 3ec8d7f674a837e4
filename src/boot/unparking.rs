//! Unparking: while work waits for settings or a credential, these are looked at until they are put right.

use std::{sync::Arc, time::Duration};

use actix::Addr;
use hivewright_actors::{
    briefing::{Assignment, Briefing, Hindrance, OnHindrance},
    clock::{Clock, Timestamp},
    ids::TeamName,
    queue::{Queue, parking::UnparkAll},
    task::WaitReason,
};
use tokio::{
    sync::mpsc::{self, UnboundedReceiver},
    time::MissedTickBehavior,
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    settings::{live::Live, providers::Providers},
    system::WallClock,
};

/// How soon it counts that something was put right. Nothing is looked at while nothing waits.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A look at files that takes longer is given up until the next.
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// Hears of hindrances before there is anybody to see to them.
pub(super) fn hear() -> (OnHindrance, UnboundedReceiver<Hindrance>) {
    let (tell, told) = mpsc::unbounded_channel();
    let on_hindrance = Arc::new(move |hindrance| {
        // Nobody is there any more when the service stops.
        let _ = tell.send(hindrance);
    });
    (on_hindrance, told)
}

/// Lets parked work go on when what hinders it is put right; ends when it is dropped.
pub(super) fn start(
    told: UnboundedReceiver<Hindrance>,
    briefing: Arc<dyn Briefing>,
    live: Live,
    queue: Addr<Queue>,
) -> AbortOnDropHandle<()> {
    let watch =
        Watch { briefing, live, queue, unprepared: Vec::new(), login: false, providers: None };
    AbortOnDropHandle::new(hivewright_actors::spawn::local(watch.run(told)))
}

struct Watch {
    briefing: Arc<dyn Briefing>,
    live: Live,
    queue: Addr<Queue>,
    /// Turns that cannot be prepared, and until when somebody waits for that.
    unprepared: Vec<(Assignment, Timestamp)>,
    /// Somebody waits for a credential.
    login: bool,
    /// The profiles as they were at the last look. Whoever waits was refused with these or newer ones.
    providers: Option<Arc<Providers>>,
}

impl Watch {
    async fn run(mut self, mut told: UnboundedReceiver<Hindrance>) {
        self.providers = self.live.providers().await.ok();
        while let Some(hindrance) = told.recv().await {
            self.note(hindrance);
            let mut looks = tokio::time::interval(LOOK_EVERY);
            looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while self.login || !self.unprepared.is_empty() {
                tokio::select! {
                    Some(hindrance) = told.recv() => self.note(hindrance),
                    _ = looks.tick() => self.look().await,
                }
            }
        }
    }

    fn note(&mut self, hindrance: Hindrance) {
        match hindrance {
            Hindrance::Login => self.login = true,
            Hindrance::Brief(assignment, until) => {
                match self.unprepared.iter_mut().find(|(known, _)| is_same(known, &assignment)) {
                    Some((_, last)) => *last = until.max(*last),
                    None => self.unprepared.push((*assignment, until)),
                }
            }
        }
    }

    async fn look(&mut self) {
        let now = WallClock.now();
        self.unprepared.retain(|(_, until)| *until > now);
        let mut cured = Vec::new();
        for (assignment, _) in &self.unprepared {
            let brief = self.briefing.brief(assignment.clone());
            if let Ok(Ok(_)) = tokio::time::timeout(LOOK_TIMEOUT, brief).await {
                cured.push(assignment.lane.team.clone());
            }
        }
        for team in cured {
            self.unprepared.retain(|(assignment, _)| assignment.lane.team != team);
            tracing::info!(%team, "settings were put right; what waited for them goes on");
            self.unpark(WaitReason::Config, Some(team));
        }
        if self.login
            && let Ok(now) = self.live.providers().await
            && self.providers.as_ref() != Some(&now)
        {
            self.providers = Some(now);
            self.login = false;
            tracing::info!("the profiles changed; what waited for a credential goes on");
            self.unpark(WaitReason::Login, None);
        }
    }

    fn unpark(&self, reason: WaitReason, team: Option<TeamName>) {
        self.queue.do_send(UnparkAll { reason, team });
    }
}

/// What is wrong with one is wrong with the other.
fn is_same(one: &Assignment, other: &Assignment) -> bool {
    (&one.lane.team, one.generation, &one.options)
        == (&other.lane.team, other.generation, &other.options)
}
