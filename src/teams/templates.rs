//! Templates of teams: what a team of a common kind is for, may use and should know from the start.

use crate::{
    api::teams::{NewTeam, TeamTemplate, Template},
    settings::{document::Document, problem::Problems},
};

impl Template {
    const fn source(self) -> &'static str {
        match self {
            Self::Coder => include_str!("../../config/templates/coder.yaml"),
            Self::Researcher => include_str!("../../config/templates/researcher.yaml"),
            Self::Reviewer => include_str!("../../config/templates/reviewer.yaml"),
            Self::Scheduler => include_str!("../../config/templates/scheduler.yaml"),
        }
    }

    /// What it says. The files ship with the program, so that nothing is wrong with them.
    pub fn read(self) -> Result<TeamTemplate, Problems> {
        let document = Document::plain(self.as_str());
        let read = document.read(self.source(), |template| {
            let mut words = |key| template.required(key, |field| field.list(|item| item.text()));
            Some(TeamTemplate {
                name: self,
                scope_accepts: words("scope")?,
                allowed_tools: words("allowed_tools")?,
                description: template.required("description", |field| field.text())?,
                init_context: template.required("context", |field| field.text())?,
            })
        });
        let (read, _) = document.finish(read)?;
        read.ok_or_else(Problems::default)
    }
}

impl TeamTemplate {
    /// The team that is wanted, with what the template says of all that was left open.
    pub fn complete(self, team: NewTeam) -> NewTeam {
        let (description, scope_accepts) = (team.description, team.scope_accepts);
        NewTeam {
            description: if description.is_empty() { self.description } else { description },
            scope_accepts: if scope_accepts.is_empty() {
                self.scope_accepts
            } else {
                scope_accepts
            },
            allowed_tools: team.allowed_tools.or(Some(self.allowed_tools)),
            init_context: team.init_context.or(Some(self.init_context)),
            ..team
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_templates_make_teams_that_can_be_made() {
        for template in Template::ALL {
            let template = template.read().unwrap();
            let said = NewTeam { description: "mine".to_owned(), ..NewTeam::default() };

            let team = template.clone().complete(said);

            team.check_fields().unwrap();
            assert_eq!(team.description, "mine");
            assert_eq!(team.scope_accepts, template.scope_accepts);
            assert!(!team.scope_accepts.is_empty());
            assert_eq!(team.init_context, Some(template.init_context));
        }
    }
}
