//! Markdown on a terminal, row by row as the text comes in.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

const RESET: &str = "\x1b[0m";
const BOLD: &str = "\x1b[1m";
const FAINT: &str = "\x1b[2m";
const ITALIC: &str = "\x1b[3m";
const CODE: &str = "\x1b[36m";
const BOLD_UNDERLINED: &str = "\x1b[1;4m";
/// How a block of code begins and ends.
const FENCE: &str = "```";

/// A text that is being written. What is ready is given out in whole rows, and never changes afterwards.
#[derive(Debug, Default)]
pub(super) struct Markdown {
    /// Marks become colours. Without, the text stays as it was written.
    colour: bool,
    /// The rest of the line that has not ended.
    rest: String,
    /// What the line is, once its beginning was given out.
    block: Option<Block>,
    /// The rows of a table that has not ended, each as its cells: how wide a column is, only its end tells.
    table: Vec<Vec<String>>,
    in_code: bool,
    bold: bool,
    italic: bool,
    literal: bool,
}

/// What a line is.
#[derive(Clone, Debug, Default, PartialEq)]
struct Block {
    /// Before its first row, and before the others.
    first: String,
    others: String,
    /// How all of it looks.
    style: &'static str,
    /// Its rows are as long as they are.
    is_wide: bool,
}

impl Markdown {
    pub(super) fn new(colour: bool) -> Self {
        Self { colour, ..Self::default() }
    }

    /// Takes in the next piece. Returns the rows that are ready, for a terminal of this width.
    pub(super) fn push(&mut self, text: &str, width: usize) -> String {
        let mut rows = String::new();
        for piece in text.split_inclusive('\n') {
            match piece.strip_suffix('\n') {
                Some(end) => {
                    self.rest.push_str(end);
                    rows.push_str(&self.end_line(width));
                }
                None => {
                    self.rest.push_str(piece);
                    rows.push_str(&self.full_rows(width));
                }
            }
        }
        rows
    }

    /// Ends the text. Returns what was not ready yet.
    pub(super) fn finish(&mut self, width: usize) -> String {
        let is_begun = self.block.is_some() || !self.rest.is_empty();
        let mut rows = if is_begun { self.end_line(width) } else { String::new() };
        rows.push_str(&self.end_table());
        *self = Self::new(self.colour);
        rows
    }

    /// The rows of a line that goes on.
    fn full_rows(&mut self, width: usize) -> String {
        // What a short line is may still change with its next character.
        if self.in_code || self.block.is_none() && (self.rest.width() <= width || self.in_table()) {
            return String::new();
        }
        self.end_table() + &self.rows(width)
    }

    fn end_line(&mut self, width: usize) -> String {
        if self.block.is_none() && self.in_table() {
            let line = std::mem::take(&mut self.rest);
            self.table.push(cells(&line));
            return String::new();
        }
        let mut rows = self.end_table();
        if self.block.is_none() && self.rest.trim_start().starts_with(FENCE) {
            return rows + &self.fence();
        }
        rows.push_str(&self.rows(width));
        let last = std::mem::take(&mut self.rest);
        rows.push_str(&self.row(last.trim_end()));
        (self.block, self.bold, self.italic, self.literal) = (None, false, false, false);
        rows
    }

    /// The line that begins with the rest is a row of a table.
    fn in_table(&self) -> bool {
        self.colour && !self.in_code && self.rest.trim_start().starts_with('|')
    }

    /// The rows of the table that stands before this line, its columns below each other.
    fn end_table(&mut self) -> String {
        let mut table = std::mem::take(&mut self.table);
        let ruled = table.get(1).is_some_and(|row| row.iter().all(|cell| is_rule(cell)));
        let rule = if ruled { table.remove(1) } else { Vec::new() };
        let columns = table.iter().map(Vec::len).max().unwrap_or_default();
        let mut widths = vec![0; columns];
        let mut shown = Vec::with_capacity(table.len());
        for (place, row) in table.iter().enumerate() {
            let base = if ruled && place == 0 { BOLD } else { "" };
            let row: Vec<(String, usize)> = row.iter().map(|cell| self.cell(cell, base)).collect();
            for (widest, (_, width)) in widths.iter_mut().zip(&row) {
                *widest = (*widest).max(*width);
            }
            shown.push(row);
        }
        let mut rows = String::new();
        for (place, row) in shown.into_iter().enumerate() {
            let mut line = String::new();
            for (column, (cell, width)) in row.into_iter().enumerate() {
                let gap = " ".repeat(widths[column] - width);
                let is_right = rule
                    .get(column)
                    .is_some_and(|mark| mark.ends_with(':') && !mark.starts_with(':'));
                line.push_str(&if is_right { gap + &cell } else { cell + &gap });
                line.push_str("  ");
            }
            rows.push_str(line.trim_end());
            rows.push('\n');
            if ruled && place == 0 {
                let dashes: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                rows.push_str(&format!("{FAINT}{}{RESET}\n", dashes.join("  ")));
            }
        }
        rows
    }

    /// A cell of a table with its colours, and how wide it is without them.
    fn cell(&mut self, text: &str, base: &str) -> (String, usize) {
        let shown = self.inline(text, base);
        (self.bold, self.italic, self.literal) = (false, false, false);
        let width = shown
            .split('\x1b')
            .enumerate()
            // Every piece but the first begins with the rest of a colour, up to its `m`.
            .map(|(place, piece)| {
                if place == 0 { piece } else { piece.split_once('m').map_or("", |(_, text)| text) }
            })
            .map(UnicodeWidthStr::width)
            .sum();
        let shown = if base.is_empty() { shown } else { format!("{base}{shown}{RESET}") };
        (shown, width)
    }

    /// Begins or ends a block of code. The fence itself is no part of what is shown.
    fn fence(&mut self) -> String {
        let line = std::mem::take(&mut self.rest);
        self.in_code = !self.in_code;
        if self.colour { String::new() } else { format!("{line}\n") }
    }

    /// All rows that the rest of the line fills.
    fn rows(&mut self, width: usize) -> String {
        let mut rows = String::new();
        loop {
            let block = match &self.block {
                Some(block) => block,
                None => {
                    let block = self.block_of_line();
                    self.block.insert(block)
                }
            };
            let room = width.saturating_sub(block.first.width());
            match (block.is_wide, break_of(&self.rest, room)) {
                (false, Some(place)) => {
                    let row: String = self.rest.drain(..place).collect();
                    rows.push_str(&self.row(row.trim_end()));
                }
                _ => return rows,
            }
        }
    }

    /// What the line is that begins with the rest, from which the marks are taken.
    fn block_of_line(&mut self) -> Block {
        if self.in_code {
            return Block { style: CODE, is_wide: true, ..Block::default() };
        }
        if !self.colour {
            return Block::default();
        }
        let indent = self.rest.len() - self.rest.trim_start_matches(' ').len();
        let (spaces, line) = self.rest.split_at(indent);
        let heading = line.trim_start_matches('#');
        let level = line.len() - heading.len();
        if (1..=6).contains(&level) && heading.starts_with(' ') {
            let style = if level == 1 { BOLD_UNDERLINED } else { BOLD };
            self.rest = heading.trim().to_owned();
            return Block { style, ..Block::default() };
        }
        if line.len() >= 3
            && ["-", "*", "_"].iter().any(|mark| line.trim_end().replace(mark, "").is_empty())
        {
            self.rest = "─".repeat(24);
            return Block { style: FAINT, ..Block::default() };
        }
        let (mark, length) = match line.split_once(' ') {
            Some((">", _)) => ("│ ".to_owned(), 2),
            Some(("-" | "*" | "+", _)) => (format!("{spaces}• "), 2),
            Some((number, _)) if is_number(number) => {
                (format!("{spaces}{number} "), number.len() + 1)
            }
            _ => (spaces.to_owned(), 0),
        };
        let others = if mark.starts_with('│') { mark.clone() } else { " ".repeat(mark.width()) };
        self.rest.drain(..indent + length);
        Block { first: mark, others, ..Block::default() }
    }

    /// One row, with its colours and its end.
    fn row(&mut self, text: &str) -> String {
        let Some(block) = &mut self.block else { return format!("{text}\n") };
        let mark = std::mem::replace(&mut block.first, block.others.clone());
        let (style, is_wide) = (block.style, block.is_wide);
        if !self.colour {
            return format!("{mark}{text}\n");
        }
        let shown =
            if is_wide && style == CODE { text.to_owned() } else { self.inline(text, style) };
        match style {
            "" => format!("{mark}{shown}\n"),
            style => format!("{mark}{style}{shown}{RESET}\n"),
        }
    }

    /// Marks within a line become colours. What was begun in an earlier row goes on.
    fn inline(&mut self, text: &str, base: &str) -> String {
        let mut shown = self.styles();
        let mut before = None;
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            let mark = match letter {
                '`' => "`",
                '*' if rest.starts_with("**") && !self.literal => "**",
                '*' if !self.literal => "*",
                _ => "",
            };
            let after = rest[mark.len().max(letter.len_utf8())..].chars().next();
            // A lone star within a word is more often a sign of multiplication.
            let is_apart = mark != "*" || before.is_none_or(|c: char| !c.is_alphanumeric());
            let begins = is_apart && after.is_some_and(|c| !c.is_whitespace());
            let ends = before.is_some_and(|c| !c.is_whitespace());
            let state = match mark {
                "`" => Some(&mut self.literal),
                "**" => Some(&mut self.bold),
                "*" => Some(&mut self.italic),
                _ => None,
            };
            let changes = state.as_ref().is_some_and(|is_on| if **is_on { ends } else { begins });
            if let (Some(state), true) = (state, changes) {
                *state = !*state;
                shown.push_str(RESET);
                shown.push_str(base);
                shown.push_str(&self.styles());
                rest = &rest[mark.len()..];
            } else {
                shown.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
            before = Some(letter);
        }
        if self.bold || self.italic || self.literal {
            shown.push_str(RESET);
        }
        shown
    }

    fn styles(&self) -> String {
        let styles = [(self.bold, BOLD), (self.italic, ITALIC), (self.literal, CODE)];
        styles.into_iter().filter(|(is_on, _)| *is_on).map(|(_, style)| style).collect()
    }
}

/// The cells of a row of a table. A bar behind a backslash is part of its cell.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let inner = line.strip_prefix('|').unwrap_or(line);
    let inner = inner.strip_suffix('|').filter(|rest| !rest.ends_with('\\')).unwrap_or(inner);
    let mut cells = vec![String::new()];
    let mut before = None;
    for letter in inner.chars() {
        match (letter, cells.last_mut()) {
            ('|', Some(cell)) if before == Some('\\') => {
                cell.pop();
                cell.push('|');
            }
            ('|', _) => cells.push(String::new()),
            (letter, Some(cell)) => cell.push(letter),
            (_, None) => {}
        }
        before = Some(letter);
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// A cell of the line below a table's head, such as `:---`.
fn is_rule(cell: &str) -> bool {
    cell.contains('-') && cell.trim_matches(':').bytes().all(|c| c == b'-')
}

/// A number of a list, such as `12.`.
fn is_number(word: &str) -> bool {
    let digits = word.trim_end_matches(['.', ')']);
    digits.len() + 1 == word.len()
        && !digits.is_empty()
        && digits.bytes().all(|c| c.is_ascii_digit())
}

/// Where a text is broken that is longer than the room: behind a space, or before a wide letter, as in scripts without
/// spaces. A longer word stays whole, so that an address can be copied.
fn break_of(text: &str, room: usize) -> Option<usize> {
    let (mut taken, mut last, mut begun) = (0, None, false);
    for (place, letter) in text.char_indices() {
        let width = letter.width().unwrap_or_default();
        if width == 2 && begun {
            last = Some(place);
        }
        taken += width;
        if taken > room && last.is_some() {
            return last;
        }
        begun |= letter != ' ';
        if letter == ' ' && begun {
            last = Some(place + 1);
        }
    }
    last.filter(|_| taken > room)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, width: usize) -> String {
        let mut markdown = Markdown::new(true);
        markdown.push(text, width) + &markdown.finish(width)
    }

    /// OP-78: scripts without spaces are broken too, so that their text is shown while it comes.
    #[test]
    fn wide_letters_are_broken_where_the_room_ends() {
        assert_eq!(break_of("今日はとても良い天気です", 10), Some("今日はとて".len()));
        assert_eq!(break_of("see https://example.org/a/long/path now", 10), Some("see ".len()));
        assert_eq!(break_of("https://example.org/a now", 10), Some("https://example.org/a ".len()));
        assert_eq!(break_of("https://example.org/a", 10), None);
        assert_eq!(break_of("short", 10), None);
    }

    /// OP-78
    #[test]
    fn headings_lists_code_and_emphasis_are_shown_without_their_marks() {
        let text = "# Plan\n\n- **first** and `x*y*z`\n  2. *second*\n> said\n```rust\nlet a = 1; // **no**\n```\n2 * 3 * 4 = 24\n";

        assert_eq!(
            shown(text, 40),
            "\x1b[1;4mPlan\x1b[0m\n\n\
             • \x1b[1mfirst\x1b[0m and \x1b[0m\x1b[36mx*y*z\x1b[0m\n  2. \x1b[0m\x1b[3msecond\x1b[0m\n\
             │ said\n\x1b[36mlet a = 1; // **no**\x1b[0m\n2 * 3 * 4 = 24\n"
                .replace("• \x1b[1m", "• \x1b[0m\x1b[1m")
        );
    }

    /// OP-78: words are broken at spaces, below the beginning of their item; an address is not.
    #[test]
    fn long_lines_are_broken_between_words() {
        let text = "- one two three four\nsee https://example.org/a/long/way for more\n";

        assert_eq!(
            shown(text, 12),
            "• one two \n  three four\nsee \nhttps://example.org/a/long/way\nfor more\n"
                .replace(" \n", "\n")
        );
    }

    /// OP-78: whatever the pieces, the rows are the same, and each comes as soon as it is full.
    #[test]
    fn rows_come_as_soon_as_they_are_full() {
        let text = "A **bold start** of a rather long line\n- and an item that is long too\n";
        let mut markdown = Markdown::new(true);
        let mut rows = String::new();
        let mut first = None;

        for (place, letter) in text.char_indices() {
            rows.push_str(&markdown.push(&letter.to_string(), 16));
            if first.is_none() && !rows.is_empty() {
                first = Some(place);
            }
        }
        rows.push_str(&markdown.finish(16));

        assert_eq!(rows, shown(text, 16));
        assert!(first.is_some_and(|place| place < 20), "{first:?}");
    }

    /// OP-78: however the text comes in.
    #[test]
    fn columns_of_a_table_stand_below_each_other() {
        let text = "So:\n| Name | Price |\n|:---|---:|\n| **a** \\| b | 7 |\n| 東京 | 1200 |\nEnd of a long line\n";
        let wanted = "So:\n\x1b[1mName\x1b[0m   \x1b[1mPrice\x1b[0m\n\x1b[2m─────  ─────\x1b[0m\n\
            \x1b[0m\x1b[1ma\x1b[0m | b      7\n東京    1200\nEnd of\na long\nline\n";

        assert_eq!(shown(text, 7), wanted);

        let mut markdown = Markdown::new(true);
        let mut rows: String =
            text.chars().map(|letter| markdown.push(&letter.to_string(), 7)).collect();
        rows.push_str(&markdown.finish(7));
        assert_eq!(rows, wanted);
        assert_eq!(shown("| a | b |", 80), "a  b\n", "a text that ends in a table");
        assert_eq!(shown("|\n", 80), "\n");
    }

    /// OP-84
    #[test]
    fn without_colours_the_text_stays_as_it_was_written() {
        let mut plain = Markdown::new(false);
        let text = "# Plan\n- **first**\n```\ncode\n```\n";

        assert_eq!(plain.push(text, 80), text);
        assert_eq!(plain.push("end", 80) + &plain.finish(80), "end\n");
        assert_eq!(plain.finish(80), "");
    }
}
