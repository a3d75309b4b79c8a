from django.urls import URLPattern, URLResolver

app_name = "hosts"
urlpatterns: list[URLPattern | URLResolver] = []
