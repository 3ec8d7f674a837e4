//! `edit`: a passage of a text file.

use std::borrow::Cow;

use hivewright_actors::tool::{Effect, ToolFault};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    about::About,
    contract::{Tool, ToolContext},
    error::ToolError,
    provenance::Scope,
    reach::Reach,
    read::text_of,
};

pub(super) struct Edit;

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// The file, absolute or relative to the workspace.
    file_path: String,
    /// The text to replace, exactly as it stands in the file, without line numbers.
    #[schemars(length(min = 1))]
    old_string: String,
    /// The text to put in its place.
    new_string: String,
    /// Replace every occurrence; otherwise there must be exactly one.
    #[serde(default)]
    replace_all: bool,
}

impl Tool for Edit {
    const ABOUT: About = About::new("edit", "@files", "file.write", Effect::Idempotent)
        .unbounded()
        .exclusive()
        .paths(&["file_path"])
        .refuses_secrets();
    const DESCRIPTION: &'static str = "Replaces a passage of a text file by another. Both are plain text, no patterns. \
        `old_string` must occur exactly once unless `replace_all` is set; give enough of its surroundings.";
    type Args = Args;

    fn reaches(args: &Args) -> Vec<Reach> {
        vec![Reach::Write(args.file_path.clone())]
    }

    fn accept(args: &Args) -> Result<(), String> {
        if args.old_string == args.new_string {
            return Err("`new_string`: is the same as `old_string`".to_owned());
        }
        Ok(())
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let path = args.file_path.clone();
        let edited = cx.change(Self::ABOUT.name, &path, Scope::Part, move |cx| {
            let path = &args.file_path;
            let opened = text_of(cx, path)?;
            match replace(&opened.text, &args, cx.rerun)? {
                Edited::Already => Ok((format!("Already replaced in {path}"), None)),
                Edited::Replaced { text, count } => {
                    let written = cx.write(path, text.as_bytes())?;
                    Ok((format!("Replaced {count} occurrence(s) in {path}"), Some(written)))
                }
            }
        });
        edited.await
    }
}

#[derive(Debug, PartialEq)]
enum Edited {
    Replaced {
        text: String,
        count: usize,
    },
    /// An earlier try of the same call did it.
    Already,
}

fn replace(text: &str, args: &Args, rerun: bool) -> Result<Edited, ToolError> {
    let old = endings_of(text, &args.old_string);
    let new = endings_of(text, &args.new_string);
    let path = &args.file_path;
    if rerun && is_replaced(text, &old, &new) {
        let count = text.matches(&*new).count();
        if count == 1 || args.replace_all || new.is_empty() {
            return Ok(Edited::Already);
        }
        // Some of them stood there before, so that nothing tells whether one is ours.
        return Err(ToolError::new(
            ToolFault::Conflict,
            format!(
                "an earlier try of this edit was cut off, and {path} does not show whether it took effect: `old_string` is \
                 not there and `new_string` occurs {count} times; read the file, and edit again what is still to be replaced"
            ),
        ));
    }
    match text.matches(&*old).count() {
        0 => Err(ToolError::new(
            ToolFault::NotFound,
            format!("`old_string` was not found in {path}"),
        )),
        count @ 2.. if !args.replace_all => Err(ToolError::new(
            ToolFault::Conflict,
            format!(
                "`old_string` occurs {count} times in {path}; give more of its surroundings or set `replace_all`"
            ),
        )),
        count => Ok(Edited::Replaced { text: text.replace(&*old, &new), count }),
    }
}

/// Lines are shown without their endings, so a passage is written with plain ones; the file's stay.
fn endings_of<'a>(text: &str, passage: &'a str) -> Cow<'a, str> {
    if text.contains("\r\n") && !passage.contains("\r\n") {
        passage.replace('\n', "\r\n").into()
    } else {
        passage.into()
    }
}

/// Whether the file looks as this call may leave it: nothing old is left but what the new holds.
fn is_replaced(text: &str, old: &str, new: &str) -> bool {
    if new.is_empty() {
        return !text.contains(old);
    }
    text.contains(new) && !text.replace(new, "\0").contains(old)
}

#[cfg(test)]
mod tests {

    use super::*;

    fn args(old: &str, new: &str) -> Args {
        Args {
            file_path: "f".to_owned(),
            old_string: old.to_owned(),
            new_string: new.to_owned(),
            replace_all: false,
        }
    }

    fn replaced(text: &str, count: usize) -> Edited {
        let text = text.to_owned();
        Edited::Replaced { text, count }
    }

    /// TO-59
    #[test]
    fn characters_that_mean_something_elsewhere_are_plain() {
        let edited = replace("a.*$1b", &args(".*$1", "$0\\n&"), false).unwrap();

        assert_eq!(edited, replaced("a$0\\n&b", 1));
    }

    /// TO-59
    #[test]
    fn line_endings_of_the_file_are_kept() {
        let edited = replace("one\r\ntwo\r\nthree\r\n", &args("one\ntwo", "1\n2"), false).unwrap();

        assert_eq!(edited, replaced("1\r\n2\r\nthree\r\n", 1));
    }

    /// TO-59: a second run of the same call changes nothing, also when the new text holds the old.
    #[test]
    fn a_rerun_after_it_took_effect_is_a_success() {
        let runs = [("b", "a", "b"), ("ab!", "a", "ab"), ("", "a", "")]
            .map(|(text, old, new)| replace(text, &args(old, new), true).unwrap());

        assert_eq!(runs, [Edited::Already, Edited::Already, Edited::Already]);
    }

    /// TO-59
    #[test]
    fn a_rerun_before_it_took_effect_does_it() {
        assert_eq!(replace("a", &args("a", "ab"), true).unwrap(), replaced("ab", 1));
    }

    /// TO-59: a new text that stands elsewhere, too, proves nothing.
    #[test]
    fn a_rerun_that_cannot_tell_whether_it_took_effect_says_so() {
        let unclear = replace("let b;\nlet b;\n", &args("let a;", "let b;"), true).unwrap_err();
        let all = Args { replace_all: true, ..args("let a;", "let b;") };
        let all = replace("let b;\nlet b;\n", &all, true).unwrap();
        let open = replace("let a;\nlet b;\n", &args("let a;", "let b;"), true).unwrap();

        assert_eq!(unclear.fault, ToolFault::Conflict);
        assert!(unclear.message.contains("read the file"), "{unclear}");
        assert_eq!(all, Edited::Already);
        assert_eq!(open, replaced("let b;\nlet b;\n", 1));
    }
}
