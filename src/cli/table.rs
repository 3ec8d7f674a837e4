//! Tables: rows in columns, for people.

use super::screen::printable;

/// Lines up rows under their heading. Each row has as many cells as the heading.
pub(super) fn table<const N: usize>(
    heading: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut lines = vec![heading.map(str::to_owned)];
    lines.extend(rows.into_iter().map(|row| row.map(|cell| printable(&cell))));
    let widths: [usize; N] = std::array::from_fn(|column| {
        let widths = lines.iter().map(|line| line[column].chars().count());
        widths.max().unwrap_or_default()
    });
    let aligned = lines.iter().map(|line| {
        let cells = line.iter().zip(widths);
        let cells: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        format!("{}\n", cells.join("  ").trim_end())
    });
    aligned.collect()
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

        assert_eq!(
            table(["ID", "N", "LAST"], rows),
            "ID  N  LAST\n1   ä  x[2J\n22     y\n"
        );
    }

    #[test]
    fn a_moment_is_shown_to_the_minute() {
        assert_eq!(moment("2026-11-14T23:46:40.000Z"), "2026-11-14 23:46 UTC");
        assert_eq!(moment("soon"), "soon");
    }
}
