"""Apps that had tables in earlier versions, for the tests of upgrades: their migrations, as they were."""
