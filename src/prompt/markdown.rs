//! The little of Markdown that rules, skills and subagents are made of.

/// The YAML between two lines `---` at the beginning, and what follows.
///
/// The first of them stays with the YAML, so that lines are counted as in the file.
pub(super) fn split_front_matter(source: &str) -> (&str, &str) {
    let is_mark = |line: &str| line.trim_end() == "---";
    let mut lines = source.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| is_mark(line)) else {
        return ("", source);
    };
    let mut end = first.len();
    for line in lines {
        if is_mark(line) {
            return (&source[..end], &source[end + line.len()..]);
        }
        end += line.len();
    }
    ("", source)
}

/// A text without the mark that some editors put in front.
pub(super) fn without_mark(source: &str) -> &str {
    source.strip_prefix('\u{feff}').unwrap_or(source)
}

/// A text by its headings: `# title` once, then `## section`s. Deeper ones belong to their section.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outline<'a> {
    pub(crate) title: Option<&'a str>,
    sections: Vec<(&'a str, &'a str)>,
}

impl<'a> Outline<'a> {
    /// Reads the headings. What looks like one inside of a code block is none.
    pub(crate) fn of(text: &'a str) -> Self {
        let mut outline = Self::default();
        let mut open: Option<(&str, usize)> = None;
        let mut fence: Option<&str> = None;
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let (start, trimmed) = (at, line.trim());
            at += line.len();
            let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
            match (fence, mark) {
                (None, Some(mark)) => fence = Some(mark),
                (Some(opened), Some(mark)) if opened == mark => fence = None,
                _ => {}
            }
            if fence.is_some() {
                continue;
            }
            if let Some(name) = line.strip_prefix("## ") {
                outline.close(text, open.replace((name.trim(), at)), start);
            } else if let Some(title) = line.strip_prefix("# ") {
                outline.close(text, open.take(), start);
                outline.title = outline.title.or(Some(title.trim()));
            }
        }
        outline.close(text, open, text.len());
        outline
    }

    /// The text of a section, by its heading in any case.
    pub(crate) fn section(&self, name: &str) -> Option<&'a str> {
        self.sections
            .iter()
            .find(|(heading, _)| heading.eq_ignore_ascii_case(name))
            .map(|(_, text)| *text)
    }

    fn close(&mut self, text: &'a str, open: Option<(&'a str, usize)>, end: usize) {
        if let Some((name, start)) = open {
            self.sections.push((name, text[start..end].trim()));
        }
    }
}

/// The first paragraph of a text, on one line.
pub(super) fn first_paragraph(text: &str) -> String {
    let lines = text.trim_start().lines();
    let lines = lines.take_while(|line| !line.trim().is_empty());
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The first word of each bullet, without quotes around it or punctuation behind it.
pub(crate) fn bullets(text: &str) -> Vec<String> {
    let items = text.lines().filter_map(|line| {
        let line = line.trim_start();
        ["- ", "* ", "+ "].iter().find_map(|mark| line.strip_prefix(mark))
    });
    items
        .filter_map(|item| item.split_whitespace().next())
        .map(|word| word.trim_matches(|c: char| "`*_\"'()".contains(c) || ",;:.".contains(c)))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_has_a_title_and_sections() {
        let text = "\n# Skill: deploy\n\nIntro.\n\n## Purpose\nPuts it\nonline.\n\nMore.\n\n### Deeper\nStill.\n\n\
            ## Steps\n```sh\n## not a heading\n# nor this\n```\n1. Go.\n## Empty\n";

        let outline = Outline::of(text);

        assert_eq!(outline.title, Some("Skill: deploy"));
        assert_eq!(
            outline.section("purpose"),
            Some("Puts it\nonline.\n\nMore.\n\n### Deeper\nStill.")
        );
        assert_eq!(
            outline.section("Steps"),
            Some("```sh\n## not a heading\n# nor this\n```\n1. Go.")
        );
        assert_eq!(outline.section("Empty"), Some(""));
        assert_eq!(outline.section("Inputs"), None);
    }

    #[test]
    fn a_paragraph_ends_at_an_empty_line() {
        assert_eq!(first_paragraph("\nOne\n two.\n\nThree."), "One two.");
        assert_eq!(first_paragraph(""), "");
    }

    #[test]
    fn a_bullet_is_known_by_its_first_word() {
        let text = "Needs:\n- deploy_service — puts it online\n* `check`: looks\n  + a.b, and more\n-nothing\n- \n";

        assert_eq!(bullets(text), ["deploy_service", "check", "a.b"]);
    }
}
