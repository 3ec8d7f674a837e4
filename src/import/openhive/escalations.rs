//! Escalations: problems that teams handed up. Those without an answer become notices.

use hivewright_actors::{
    notice::{Notice, NoticeKind},
    store::records::Writes,
};

use super::{
    moment::moment,
    plan::{Artifact, Planner},
    report::{Item, Kind},
    schema::EscalationRow,
};

pub(super) fn plan(planner: &mut Planner<'_>) {
    let rows = &planner.found.tables.escalations;
    let (open, over): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.status == "pending");
    for row in open {
        let change = "becomes a notice in the operator's inbox".to_owned();
        let notice = notice(row, planner);
        let made = Artifact::row(&notice.id, Writes::new().put(&notice));
        let conversion = Ok((made, vec![change]));
        planner.take(Kind::Escalation, Some(&row.from), &row.id, row.mark(), conversion);
    }
    if !over.is_empty() {
        let item = Item::left(Kind::Escalation, "(all)", "they are answered");
        planner.report(item.times(over.len() as u64));
    }
}

fn notice(row: &EscalationRow, planner: &Planner<'_>) -> Notice {
    let (from, to) = (planner.called(&row.from), planner.called(&row.to));
    let text = format!(
        "In OpenHive `{from}` escalated something to `{to}` that was never answered \
         (`{}`). Its text was not kept there; ask the team what it was about.",
        row.id
    );
    let refs = row.task.iter().cloned().collect();
    let at = moment(&row.created_at).unwrap_or(planner.target.now);
    let team = from.as_str().into();
    Notice::of_team(planner.ids, NoticeKind::Escalation, &team, text, refs, at)
}
