//! Choice of a server in a group; shared by the threads.

use gallop_conf::model::Http;

pub struct Balancers {}

impl Balancers {
    pub fn new(_http: Option<&Http>) -> Balancers {
        Balancers {}
    }
}
