//! Degrade: a team that keeps dying is seen to do so, and so is its getting better.

use actix::{ActorFutureExt, AsyncContext, Handler, WrapFuture};

use super::{Degrade, Org, record::TeamState};
use crate::{
    notice::{Notice, NoticeKind},
    store::records::Writes,
};

impl Handler<Degrade> for Org {
    type Result = ();

    fn handle(&mut self, Degrade { team, deaths }: Degrade, ctx: &mut Self::Context) {
        let mut writes = Writes::new();
        if let Some((deaths, within)) = deaths {
            writes = writes.notice(&Notice {
                id: self.parts.ids.notice(),
                kind: NoticeKind::TeamDegraded,
                team: Some(team.clone()),
                text: format!(
                    "Team `{team}` died {deaths} times within {minutes} minutes and rests for as long. Its \
                     tasks wait; the log says what it died of.",
                    minutes = within.as_secs() / 60
                ),
                refs: Vec::new(),
                at: self.parts.clock.now(),
                read: false,
            });
        }
        let (from, to) = match deaths {
            Some(_) => (TeamState::Active, TeamState::Degraded),
            None => (TeamState::Degraded, TeamState::Active),
        };
        if let Some(mut record) = self.tree.get(team.as_str()).cloned()
            && record.state == from
        {
            record.state = to;
            writes = writes.team(&record);
            self.tree.put(record);
        }
        let committed = self.parts.store.commit(writes);
        ctx.spawn(committed.into_actor(self).map(|_, org, _| {
            org.parts.view.show(org.tree.clone());
        }));
    }
}
