//! Completion in a real shell: commands, flags, and names that the service knows.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use crate::service::Service;

/// What bash offers behind these words, the last of which is being typed.
fn offered(service: &Service, script: &str, lines: &[&str]) -> Vec<Vec<String>> {
    let program = env!("CARGO_BIN_EXE_hivewright");
    let home = service.home().display();
    let mut bash = Command::new("bash")
        .args(["--norc", "--noprofile"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = bash.stdin.take().unwrap();
    writeln!(input, "{script}").unwrap();
    for line in lines {
        let words = format!("'{program}' --home '{home}' {line}");
        writeln!(
            input,
            "COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _hivewright '{program}'\n\
             echo \"${{COMPREPLY[@]}}\""
        )
        .unwrap();
    }
    drop(input);
    let output = bash.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

/// OP-82: bash itself completes with what we print, names of the service included, and goes on in silence without one.
#[actix::test]
async fn bash_completes_commands_states_teams_and_tasks() {
    let mut service = Service::start().await;
    service.make_team("research", "finds out").await;
    let script = service.run(&["completions", "bash"], "").await.stdout;
    let (_, tasks) = service.api("GET", "/api/v1/tasks?team=research", None).await;
    let task = tasks["data"][0]["id"].as_str().unwrap();
    let lines = [
        "teams sh",
        "tasks list --state wa",
        "tasks list --state = wa",
        "teams pause re",
        "send hello --team ''",
        &format!("tasks show {}", &task[..task.len() - 2]),
        "config show server.po",
    ];

    let with = offered(&service, &script, &lines);
    service.kill();
    let without = offered(&service, &script, &lines);

    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let fixed = [words(&["show", "shutdown"]), words(&["waiting"]), words(&["waiting"])];
    let names = [words(&["research"]), words(&["main", "research"]), words(&[task])];
    let setting = [words(&["server.port"])];
    assert_eq!(with, [&fixed[..], &names, &setting].concat());
    assert_eq!(without, [&fixed[..], &[vec![], vec![], vec![]], &setting].concat());
}
