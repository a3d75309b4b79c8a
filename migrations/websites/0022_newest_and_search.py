"""An index for the sites that changed last, and indexes for parts of words in names and folders."""

from django.db import migrations, models

from panel.core.word_part_indexes import word_part_indexes

_COLUMNS = (
    ("websites_site", "name"),
    ("websites_servername", "name"),
    ("websites_serverblock", "root"),
    ("websites_upstreamserver", "address"),
)


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_account_link"),
        ("hosts", "0008_fpm_pools"),
        ("websites", "0021_labels_of_fields"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="site",
            index=models.Index(fields=["-updated_at", "-id"], name="websites_newest"),
        ),
        word_part_indexes({f"{table}_search_{column}": (table, column) for table, column in _COLUMNS}),
    ]
