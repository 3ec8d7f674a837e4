//! The first task of a new team.

const STEPS: &str = include_str!("../../config/prompt/bootstrap.md");

/// The words of the task.
pub fn task(purpose: &str) -> String {
    let purpose = purpose.split_whitespace().collect::<Vec<_>>().join(" ");
    match purpose.as_str() {
        "" => STEPS.trim().to_owned(),
        purpose => format!("{}\n\nPurpose: {purpose}", STEPS.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OR-63
    #[test]
    fn a_first_task_says_what_the_team_is_for() {
        assert!(task("They look\naround.").ends_with("\n\nPurpose: They look around."));
        assert!(!task(" ").contains("Purpose"));
    }
}
