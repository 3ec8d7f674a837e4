//! Tables: rows in columns, for people.

use std::sync::OnceLock;

use hivewright_actors::excerpt;
use jiff::{Timestamp, tz::TimeZone};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::screen::{self, printable};
use crate::{api::when::Moment, time::instant};

/// Between two columns.
const GAP: &str = "  ";
/// A column that is cut keeps at least so many characters.
const LEAST: usize = 6;

/// A column of a table: its heading, and the text of a cell.
pub(super) struct Column<R> {
    pub(super) heading: &'static str,
    pub(super) cell: fn(&R) -> String,
}

/// A row of the API that is shown in columns. Which fields is a choice; the first names what the other
/// commands take.
pub(super) trait Columns: Sized + 'static {
    const COLUMNS: &'static [Column<Self>];
}

/// Declares the columns of a row.
macro_rules! columns {
    ($row:ty { $($heading:literal => $cell:expr),+ $(,)? }) => {
        impl $crate::cli::table::Columns for $row {
            const COLUMNS: &'static [$crate::cli::table::Column<Self>] =
                &[$($crate::cli::table::Column { heading: $heading, cell: $cell }),+];
        }
    };
}
pub(super) use columns;

/// Lines up rows under the headings of their columns.
pub(super) fn rows<R: Columns>(rows: &[R]) -> String {
    let mut lines: Vec<Vec<String>> =
        vec![R::COLUMNS.iter().map(|column| column.heading.to_owned()).collect()];
    let cells = |row| R::COLUMNS.iter().map(|column| flat(&(column.cell)(row))).collect();
    lines.extend(rows.iter().map(cells));
    lined_up(&lines, screen::width())
}

/// Lines up rows under their heading. Each row has as many cells as the heading.
pub(super) fn table<const N: usize>(
    heading: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    lines.extend(rows.into_iter().map(|row| row.map(|cell| flat(&cell)).to_vec()));
    lined_up(&lines, screen::width())
}

/// Fields of one thing, one below the other, each after its name.
pub(super) fn fields<'a>(
    width: usize,
    fields: impl IntoIterator<Item = (&'a str, String)>,
) -> String {
    fields.into_iter().map(|(name, value)| format!("{name:<width$}{value}\n")).collect()
}

/// A cell is one line.
fn flat(cell: &str) -> String {
    printable(cell).replace(['\n', '\t'], " ")
}

/// On a terminal that is narrower, the widest columns are cut. The first is not: it names what the
/// other commands take.
fn lined_up(lines: &[Vec<String>], width: Option<usize>) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let widest = |column: usize| lines.iter().map(move |line| line[column].width()).max();
    let mut widths: Vec<usize> =
        (0..columns).map(|column| widest(column).unwrap_or_default()).collect();
    if let Some(width) = width {
        fit(&mut widths, width);
    }
    let aligned = lines.iter().map(|line| {
        let cells = line.iter().zip(&widths);
        let cells: Vec<_> = cells.map(|(cell, &width)| filled(cell, width)).collect();
        format!("{}\n", cells.join(GAP).trim_end())
    });
    aligned.collect()
}

/// A cell that takes exactly so many columns of the terminal.
fn filled(cell: &str, width: usize) -> String {
    let mut shown = cell.to_owned();
    if cell.width() > width {
        let mut taken = 1;
        let fits = |letter: &char| {
            taken += letter.width().unwrap_or_default();
            taken <= width
        };
        shown = cell.chars().take_while(fits).collect();
        shown.push('…');
    }
    let missing = width.saturating_sub(shown.width());
    shown.extend(std::iter::repeat_n(' ', missing));
    shown
}

/// A line of a list that goes on, cut where the terminal ends that it is shown on. In a pipe it is whole.
pub(super) fn one_line(line: String) -> String {
    cut(line, screen::width())
}

fn cut(line: String, width: Option<usize>) -> String {
    match width {
        Some(width) if line.width() > width => filled(&line, width),
        _ => line,
    }
}

/// Takes from the widest column until all fit, or nothing more can be taken.
fn fit(widths: &mut [usize], width: usize) {
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    loop {
        let excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
        let widest = widths.iter_mut().skip(1).max();
        match widest {
            Some(widest) if excess > 0 && *widest > LEAST => *widest -= 1,
            _ => return,
        }
    }
}

/// Names on one line.
pub(super) fn joined<T: ToString>(names: &[T]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.iter().map(T::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// The beginning of a text, on one line.
pub(super) fn beginning(text: &str, longest: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    excerpt::line(&words.join(" "), longest)
}

/// The first line of a text, or its beginning.
pub(super) fn first_line(text: &str, longest: usize) -> String {
    excerpt::line(text.lines().next().unwrap_or_default(), longest)
}

/// A moment that may not be known.
pub(super) fn date(at: &Option<Moment>) -> String {
    at.map(moment).unwrap_or_default()
}

/// The same where none means that it never is.
pub(super) fn or_never(at: &Option<Moment>) -> String {
    at.map_or("never".to_owned(), moment)
}

/// A moment for somebody who looks at it now: how long ago, if it is not long. A file outlives that.
pub(super) fn moment(at: Moment) -> String {
    let near = || near(instant(at.0)?, Timestamp::now());
    screen::is_live().then(near).flatten().unwrap_or_else(|| exact(at))
}

/// A moment to the minute, where the person is.
pub(super) fn exact(at: Moment) -> String {
    exact_in(at, here(), "%Y-%m-%d %H:%M %Z")
}

/// The same to the second, for many lines.
pub(super) fn to_the_second(at: Moment) -> String {
    exact_in(at, here(), "%Y-%m-%d %H:%M:%S")
}

fn here() -> &'static TimeZone {
    static HERE: OnceLock<TimeZone> = OnceLock::new();
    // Tests run anywhere.
    HERE.get_or_init(|| if cfg!(test) { TimeZone::UTC } else { TimeZone::system() })
}

fn exact_in(at: Moment, zone: &TimeZone, form: &str) -> String {
    match instant(at.0) {
        Some(at) => at.to_zoned(zone.clone()).strftime(form).to_string(),
        None => at.to_string(),
    }
}

/// How long ago, or in how long, within a day.
fn near(at: Timestamp, now: Timestamp) -> Option<String> {
    let seconds = now.as_second() - at.as_second();
    let span = match seconds.unsigned_abs() {
        0..60 => "<1 min".to_owned(),
        under @ ..3_600 => format!("{} min", under / 60),
        under @ ..86_400 => format!("{} h", under / 3_600),
        _ => return None,
    };
    Some(if seconds < 0 { format!("in {span}") } else { format!("{span} ago") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["1", "ä", "x\x1b[2J"], ["22", "", "y"]].map(|row| row.map(str::to_owned));

        assert_eq!(table(["ID", "N", "LAST"], rows), "ID  N  LAST\n1   ä  x[2J\n22     y\n");
    }

    /// OP-84: a list fits the terminal it is shown on.
    #[test]
    fn a_narrow_terminal_cuts_the_widest_columns_and_never_the_id() {
        let lines = [
            ["ID", "TEAM", "WHAT"],
            ["task-61c8864680b583eb", "research", "find out all there is"],
        ]
        .map(|line| line.map(str::to_owned).to_vec());

        let text = lined_up(&lines, Some(42));

        assert_eq!(
            text,
            "ID                     TEAM      WHAT\n\
             task-61c8864680b583eb  research  find out…\n"
        );
        assert_eq!(lined_up(&lines, Some(200)), lined_up(&lines, None));
        // Too narrow for anything: the id is whole, the rest is as short as it may be.
        let least = lined_up(&lines, Some(10));
        assert!(least.contains("task-61c8864680b583eb  resea…  find …"), "{least}");
    }

    /// OP-84
    #[test]
    fn a_line_that_goes_on_takes_no_more_than_one_of_the_terminal() {
        let line = || "12:02  task-1  Wörter".to_owned();

        assert_eq!(cut(line(), Some(18)), "12:02  task-1  Wö…");
        assert_eq!([cut(line(), Some(21)), cut(line(), None)], [line(), line()]);
    }

    #[test]
    fn a_row_is_one_line() {
        let rows = [["1".to_owned(), "two\nlines".to_owned()]];

        assert_eq!(table(["ID", "TEXT"], rows), "ID  TEXT\n1   two lines\n");
    }

    #[test]
    fn a_moment_is_shown_to_the_minute_where_the_person_is() {
        let there = TimeZone::get("Asia/Tokyo").unwrap();
        let at: Moment = "2026-11-14T23:46:40.000Z".parse().unwrap();

        assert_eq!(exact_in(at, &there, "%Y-%m-%d %H:%M %Z"), "2026-11-15 08:46 JST");
        assert_eq!(moment(at), "2026-11-14 23:46 UTC");
        // Calendars end with the year 9999.
        let late = Moment(hivewright_actors::clock::Timestamp(300_000_000_000_000));
        assert_eq!(moment(late), late.to_string());
    }

    /// OP-84
    #[test]
    fn what_is_near_is_told_from_now() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let at = |seconds: i64| near(Timestamp::from_second(1_000_000 + seconds).unwrap(), now);
        let told = |seconds| at(seconds).unwrap_or_default();

        assert_eq!([told(-59), told(-60), told(-3_599)], ["<1 min ago", "1 min ago", "59 min ago"]);
        assert_eq!([told(-86_399), told(7_200), told(59)], ["23 h ago", "in 2 h", "in <1 min"]);
        assert_eq!([at(-86_400), at(86_400)], [None, None]);
    }
}
