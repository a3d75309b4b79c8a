from django.db import migrations, models

# Of django-axes, which the panel no longer uses; they hold names and addresses of people who signed in.
_OLD_TABLES = ("axes_accessattemptexpiration", "axes_accessattempt", "axes_accesslog", "axes_accessfailurelog")


class Migration(migrations.Migration):
    dependencies = [("accounts", "0004_mail_notices")]

    operations = [
        migrations.CreateModel(
            name="GuessBudget",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=120, unique=True)),
                ("failures", models.FloatField(default=0.0)),
                ("counted_at", models.DateTimeField()),
                ("forgotten_at", models.DateTimeField(db_index=True)),
            ],
        ),
        *(migrations.RunSQL(f"DROP TABLE IF EXISTS {table}", migrations.RunSQL.noop) for table in _OLD_TABLES),
    ]
