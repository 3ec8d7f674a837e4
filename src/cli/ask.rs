//! Asks the person at the terminal before something that cannot be taken back.

use std::io::{self, BufRead, IsTerminal};

use super::{
    Context,
    failure::{Exit, Failure},
    screen::complain,
};

/// Shows what is at stake and asks. With `--yes` nobody is asked.
///
/// Where nobody can answer, nothing happens: a script says `--yes` itself.
pub(super) fn confirm(context: &Context, what: &str, question: &str) -> Result<(), Failure> {
    if context.yes {
        return Ok(());
    }
    complain(what.trim_end());
    if !io::stdin().is_terminal() {
        let message = "nobody is there to ask, so nothing was done; say `--yes` to go on";
        return Err(Failure::new(Exit::Usage, message));
    }
    complain(&format!("{question} Type `yes`:"));
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| Failure::system("the answer cannot be read", error))?;
    match line.trim() {
        "yes" | "y" => Ok(()),
        _ => Err(Failure::new(Exit::Interrupted, "nothing was done")),
    }
}
