//! Completion in a real shell: commands, flags, and names that the service knows.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use crate::{service::Service, terminal::Terminal, webdriver::is_quick};

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

/// A shell that finds the program by its name. None only where it may be missing.
fn shell(name: &str) -> Option<Command> {
    let path = Path::new("/usr/bin").join(name);
    if !path.exists() {
        assert!(
            is_quick(),
            "{name} is missing: `./tests/run` installs it (HIVEWRIGHT_TESTS=quick does without)"
        );
        return None;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_hivewright")).parent().unwrap().display();
    let mut command = Command::new(path);
    command.env("PATH", format!("{program}:{}", std::env::var("PATH").unwrap_or_default()));
    Some(command)
}

/// OP-82: fish itself completes with what we print; files only where nothing else is known.
#[actix::test]
async fn fish_completes_commands_states_teams_tasks_and_files() {
    let Some(mut fish) = shell("fish") else { return };
    let service = Service::start().await;
    service.make_team("research", "finds out").await;
    let (_, tasks) = service.api("GET", "/api/v1/tasks?team=research", None).await;
    let task = tasks["data"][0]["id"].as_str().unwrap();
    let folder = service.path("folder");
    service.write("folder/shells.txt", "");
    let home = service.home().display();
    let lines = [
        "teams sh",
        "tasks list --state wa",
        "tasks list --state=wa",
        "teams pause ",
        &format!("tasks show {}", &task[..task.len() - 2]),
        "send hello --file sh",
    ];
    let asked = lines.map(|line| format!("complete -C 'hivewright --home {home} {line}'; echo"));
    let script = format!("hivewright completions fish | source\n{}", asked.join("\n"));

    // It writes where it is at home, even without settings.
    fish.args(["--no-config", "-c", &script]).env("HOME", service.home()).current_dir(folder);
    let output = fish.stdin(Stdio::null()).output().unwrap();

    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8(output.stdout).unwrap();
    let word = |line: &str| line.split('\t').next().unwrap().to_owned();
    let offered: Vec<Vec<_>> =
        text.split_terminator("\n\n").map(|lines| lines.lines().map(word).collect()).collect();
    let expected: [&[&str]; 6] = [
        &["show", "shutdown"],
        &["waiting"],
        &["--state=waiting"],
        &["main", "research"],
        &[task],
        &["shells.txt"],
    ];
    assert_eq!(offered, expected);
}

/// OP-82: zsh itself completes with what we print, at a terminal, also where nothing else is set up.
#[actix::test]
async fn zsh_completes_commands_states_teams_tasks_and_files() {
    let Some(mut zsh) = shell("zsh") else { return };
    let service = Service::start().await;
    service.make_team("research", "finds out").await;
    let (_, tasks) = service.api("GET", "/api/v1/tasks?team=research", None).await;
    let task = tasks["data"][0]["id"].as_str().unwrap();
    service.write("folder/shells.txt", "");
    zsh.args(["-f", "-i", "+o", "promptsp"]).env("HOME", service.home()).env("PS1", "ready> ");
    let mut terminal = Terminal::start(&zsh, 200);
    terminal.shows("ready> ");

    terminal.press("cd ~/folder; source <(hivewright completions zsh)\r");
    let loaded = terminal.shows("ready> ");
    let mut complete = |line: &str, whole: &str| {
        terminal.press(&format!("hivewright --home ~ {line}\t"));
        terminal.shows(whole);
        // The line is given up.
        terminal.press("\x15");
    };
    complete("teams sh", "shutdown  -- Shut a team down");
    complete("tasks list --state wa", "--state waiting ");
    complete("tasks list --state=wa", "--state=waiting ");
    complete("send hello --team re", "--team research ");
    complete(&format!("tasks show {}", &task[..task.len() - 2]), &format!("show {task} "));
    complete("send hello --file sh", "--file shells.txt ");

    assert_eq!(loaded.lines().count(), 1, "nothing is said: {loaded}");
}
