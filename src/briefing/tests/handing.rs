//! Files that come with a task, and where they are put.

use std::{fs, os::unix::fs::symlink};

use hivewright_actors::file::{FileRef, records::FileRow};

use super::*;

async fn bring(place: &Place, name: &str, content: &[u8]) -> FileRef {
    let row = FileRow { owner: Some("ann".into()), ..place.files.blank(name) };
    let mut incoming = place.files.begin("ann", None).await.unwrap();
    incoming.write(content).await.unwrap();
    place.files.keep(incoming, row).await.unwrap().file
}

/// Where a file is that the team is handed.
async fn handed(place: &Place, file: &FileRef) -> Option<String> {
    let handed =
        Handed { files: vec![file.clone()], task: Some("task-1".into()), label: Label::Trusted };
    let assignment = Assignment { handed, ..assignment("scouts", &[]) };
    let brief = place.turns.brief(assignment).await.unwrap();
    brief.files.into_iter().next().unwrap().path
}

/// CH-12: a name that is taken by a folder, a link or another file is left alone.
#[actix::test]
async fn a_file_is_put_where_its_name_is_free() {
    let place = place();
    let inbox = place.home.team("scouts").join("inbox");
    fs::create_dir_all(inbox.join("a.txt")).unwrap();
    symlink("/etc/hostname", inbox.join("a-2.txt")).unwrap();
    fs::write(inbox.join("a-3.txt"), "ours").unwrap();
    let file = bring(&place, "a.txt", b"mine").await;

    let first = handed(&place, &file).await;
    let again = handed(&place, &file).await;

    assert_eq!(first.as_deref(), Some("inbox/a-4.txt"));
    assert_eq!(again, first);
    assert_eq!(fs::read(inbox.join("a-4.txt")).unwrap(), b"mine");
    assert_eq!(fs::read(inbox.join("a-3.txt")).unwrap(), b"ours");
}

/// TO-51, SC-63: an inbox that leads out of the workspace, or into what governs the team, gets nothing; the team is told.
#[actix::test]
async fn a_link_in_the_place_of_the_inbox_leads_nowhere() {
    let place = place();
    let team = place.home.team("scouts");
    let outside = place.home.run().join("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::create_dir_all(team.join("skills")).unwrap();
    let file = bring(&place, "a.md", b"mine").await;

    symlink(&outside, team.join("inbox")).unwrap();
    let out = handed(&place, &file).await;
    fs::remove_file(team.join("inbox")).unwrap();
    symlink("skills", team.join("inbox")).unwrap();
    let governed = handed(&place, &file).await;

    assert_eq!((out, governed), (None, None));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(fs::read_dir(team.join("skills")).unwrap().count(), 0);
    let told = FileRef { path: None, ..file }.line();
    assert!(told.contains("could not be put into the workspace"), "{told}");
}

/// A content that is gone stops no turn.
#[actix::test]
async fn a_file_whose_content_is_gone_is_told_so() {
    let place = place();
    let file = bring(&place, "a.md", b"mine").await;
    fs::remove_file(place.home.files().join(&file.digest)).unwrap();

    assert_eq!(handed(&place, &file).await, None);
}
