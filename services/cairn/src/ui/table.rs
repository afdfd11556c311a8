//! Tables of text for people.

use cairn_rpc::text::clip;

/// Which way a column is aligned, and how wide it may get.
#[derive(Debug, Clone, Copy)]
pub enum Column {
    /// Aligned left.
    Left(&'static str),
    /// Aligned right: numbers.
    Right(&'static str),
}

/// Rows below a heading, in columns as wide as their widest cell.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self {
            columns: columns.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a row. Cells may be untrusted: control characters are escaped, and a cell is cut at
    /// 240 bytes.
    pub fn row<const N: usize>(&mut self, cells: [&str; N]) {
        self.cells(cells.into_iter().map(str::to_owned));
    }

    /// Adds a row of as many cells as there are columns.
    pub fn cells(&mut self, cells: impl Iterator<Item = String>) {
        self.rows.push(cells.map(|cell| clip(&cell, 240)).collect());
    }

    /// The lines of the table, without line ends and without blanks at theirs; at most `width`
    /// characters each, if given, for which the last column is cut.
    pub fn lines(&self, width: Option<usize>) -> Vec<String> {
        let heading: Vec<_> = self.columns.iter().map(|c| c.name().to_owned()).collect();
        let rows = || std::iter::once(&heading).chain(&self.rows);
        let widest = |index: usize| {
            let cells = rows().filter_map(|row| row.get(index));
            cells.map(|cell| characters(cell)).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.columns.len()).map(widest).collect();
        rows().map(|row| self.line(row, &widths, width)).collect()
    }

    fn line(&self, row: &[String], widths: &[usize], width: Option<usize>) -> String {
        let mut line = String::new();
        for ((cell, column), columns_width) in row.iter().zip(&self.columns).zip(widths) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            let blanks = " ".repeat(columns_width.saturating_sub(characters(cell)));
            match column {
                Column::Left(_) => line.extend([cell.as_str(), &blanks]),
                Column::Right(_) => line.extend([&blanks, cell.as_str()]),
            }
        }
        let line = line.trim_end();
        width.map_or_else(|| line.to_owned(), |width| cut(line, width))
    }
}

impl Column {
    const fn name(self) -> &'static str {
        match self {
            Self::Left(name) | Self::Right(name) => name,
        }
    }
}

/// The text, cut to at most `width` characters; a cut text ends with `…`.
pub fn cut(text: &str, width: usize) -> String {
    if characters(text) <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

fn characters(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([Column::Left("id"), Column::Right("runs"), Column::Left("t")]);
        table.row(["s-1", "2", "Größe"]);
        table.row(["s-1234", "10", "a\n\u{1b}[31mb"]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_keep_to_the_width() {
        let cut = table().lines(Some(16));
        assert!(cut.iter().all(|line| line.chars().count() <= 16));
        let text = [table().lines(None), cut].map(|lines| format!("---\n{}\n", lines.join("\n")));
        insta::assert_snapshot!("table", text.concat());
    }
}
