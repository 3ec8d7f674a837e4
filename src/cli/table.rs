//! Tables: rows in columns, for people.

use hivewright_actors::excerpt;

use super::screen::{self, printable};

/// Between two columns.
const GAP: &str = "  ";
/// A column that is cut keeps at least so many characters.
const LEAST: usize = 6;

/// Lines up rows under their heading. Each row has as many cells as the heading.
///
/// On a terminal that is narrower, the widest columns are cut. The first is not: it names what the
/// other commands take.
pub(super) fn table<const N: usize>(
    heading: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut lines = vec![heading.map(str::to_owned)];
    lines.extend(rows.into_iter().map(|row| row.map(|cell| flat(&cell))));
    lined_up(&lines, screen::width())
}

/// A cell is one line.
fn flat(cell: &str) -> String {
    printable(cell).replace(['\n', '\t'], " ")
}

fn lined_up<const N: usize>(lines: &[[String; N]], width: Option<usize>) -> String {
    let mut widths: [usize; N] = std::array::from_fn(|column| {
        let widths = lines.iter().map(|line| line[column].chars().count());
        widths.max().unwrap_or_default()
    });
    if let Some(width) = width {
        fit(&mut widths, width);
    }
    let aligned = lines.iter().map(|line| {
        let cells = line.iter().zip(widths);
        let cells: Vec<_> =
            cells.map(|(cell, width)| format!("{:<width$}", excerpt::line(cell, width))).collect();
        format!("{}\n", cells.join(GAP).trim_end())
    });
    aligned.collect()
}

/// Takes from the widest column until all fit, or nothing more can be taken.
fn fit<const N: usize>(widths: &mut [usize; N], width: usize) {
    let gaps = GAP.len() * N.saturating_sub(1);
    loop {
        let excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
        let widest = widths.iter_mut().skip(1).max();
        match widest {
            Some(widest) if excess > 0 && *widest > LEAST => *widest -= 1,
            _ => return,
        }
    }
}

/// A date of an answer in UTC, to the minute.
pub(super) fn moment(date: &str) -> String {
    match (date.get(..10), date.get(11..16)) {
        (Some(day), Some(time)) => format!("{day} {time} UTC"),
        _ => date.to_owned(),
    }
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
        .map(|line| line.map(str::to_owned));

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

    #[test]
    fn a_row_is_one_line() {
        let rows = [["1".to_owned(), "two\nlines".to_owned()]];

        assert_eq!(table(["ID", "TEXT"], rows), "ID  TEXT\n1   two lines\n");
    }

    #[test]
    fn a_moment_is_shown_to_the_minute() {
        assert_eq!(moment("2026-11-14T23:46:40.000Z"), "2026-11-14 23:46 UTC");
        assert_eq!(moment("soon"), "soon");
    }
}
