//! Namespaces: a test runs again where it may mount, or has a network of its own.

use std::process::Command;

/// Set for the run inside.
const INSIDE: &str = "HIVEWRIGHT_TEST_IN_NAMESPACES";

pub(crate) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs a test again in namespaces of its own, after these commands of the shell. Where there can be none, it is left out.
pub(crate) async fn run_again(test: &str, namespaces: &[&str], first: &str) {
    let as_user = ["--user", "--map-root-user"];
    let unshare = |user: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(user).args(namespaces);
        command.args(["sh", "-c", &format!("PATH=$PATH:/usr/sbin:/sbin; {first} && \"$@\""), "sh"]);
        command
    };
    let is_allowed = |user: &&[&str]| {
        let tried = unshare(user).arg("true").output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    let Some(user) = [&[][..], &as_user].into_iter().find(is_allowed) else {
        eprintln!("SKIPPED {test}: no namespaces ({}) can be made here", namespaces.join(" "));
        return;
    };
    let mut again = tokio::process::Command::from(unshare(user));
    again.arg(std::env::current_exe().unwrap()).env(INSIDE, "1");
    again.args([test, "--exact", "--nocapture"]);
    assert!(again.status().await.unwrap().success());
}
