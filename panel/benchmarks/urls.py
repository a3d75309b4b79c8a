from django.urls import URLPattern, URLResolver

app_name = "benchmarks"
urlpatterns: list[URLPattern | URLResolver] = []
