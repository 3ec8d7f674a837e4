//! Changes that teams made to themselves, over REST.

use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::{
    sandbox::workspace::Workspace,
    teams::self_changes::{Change, Proposal},
};

/// A change of a file of the main team, which says `old` now.
async fn proposed(bench: &Bench) -> (Change, Arc<Workspace>, PathBuf) {
    let folder = bench.home.team("main");
    let file = folder.join("team-rules/work.md");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "old").unwrap();
    let proposal = Proposal {
        team: TeamKey::first("main"),
        task: "task-1".into(),
        call: "turn-1:1:0".to_owned(),
        file: "team-rules/work.md".to_owned(),
        reason: "it was slow".to_owned(),
        before: "old".to_owned(),
        after: "new".to_owned(),
    };
    let change = bench.state.changes.keep(proposal).await.unwrap();
    (change, Arc::new(Workspace::open(&folder, &[]).unwrap()), file)
}

/// TR-67: who takes a change back before it has reached the file has taken it back all the same.
#[actix::test]
async fn a_change_that_is_taken_back_while_it_is_made_is_not_made() {
    let bench = Bench::new().await;
    let (change, workspace, file) = proposed(&bench).await;
    let token = bench.token("ops", only(Scope::Operate)).await;
    let path = format!("/api/v1/changes/{}/rollback", change.id);

    let back = bench.post(&path, &token, json!({})).await;
    bench.state.changes.apply(workspace, &change).await.unwrap();

    assert_eq!(back.status, 200);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
}

/// TR-67
#[actix::test]
async fn an_operator_sees_a_change_and_takes_it_back() {
    let bench = Bench::new().await;
    let (change, workspace, file) = proposed(&bench).await;
    bench.state.changes.apply(workspace, &change).await.unwrap();
    let token = bench.token("ops", only(Scope::Operate)).await;
    let reader = bench.token("reader", only(Scope::Read)).await;
    let path = format!("/api/v1/changes/{}/rollback", change.id);

    let listed = bench.get("/api/v1/changes?team=main", &reader).await;
    let others = bench.get("/api/v1/changes?team=news", &reader).await;
    let not_allowed = bench.post(&path, &reader, json!({})).await;
    let back = bench.post(&path, &token, json!({})).await;
    let again = bench.post(&path, &token, json!({})).await;
    let none = bench.post("/api/v1/changes/chg-0/rollback", &token, json!({})).await;

    let row = &listed.json()["data"][0];
    assert_eq!(
        [&row["file"], &row["before"], &row["after"], &row["reason"]],
        ["team-rules/work.md", "old", "new", "it was slow"]
    );
    assert_eq!(row["rolled_back_by"], Value::Null);
    assert_eq!(others.json()["total"], 0);
    let statuses = [not_allowed, back, again, none].map(|answer| answer.status);
    assert_eq!(statuses, [403, 200, 409, 404]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
}
